"""Layouts of the row kernels: what a program holds and how many warps it has."""

from typing import NamedTuple, TypeVar


class NarrowLayout(NamedTuple):
    """The layout of a program whose rows lie whole in registers.

    Attributes:
        held: classes of a row that one lane of a warp holds at most.
        warps: of a program. A row that needs more warps gets them; where it needs fewer, a program has as
            many rows as fill its warps.
        vector: logits of one load of a lane; 0: as many as 16 bytes take.
        power: whether an exponential at temperature 1 is computed as that at tau to the power of tau, where
            tau is a small whole number. It need not be kept then, so that fewer registers are taken.
        registers: of a thread, at most; 0: as many as the compiler takes.
    """

    held: int = 32
    warps: int = 1
    vector: int = 0
    power: bool = False
    registers: int = 0


class WideLayout(NamedTuple):
    """The layout of a program that computes one row in tiles, in two passes.

    Attributes:
        warps: of a program.
        each: classes that one lane holds of a tile where rows are not aligned; aligned rows have 16 bytes
            a lane.
        caching: whether the first pass asks the cache to keep what it loads, the second to drop it, and
            stores to pass it by.
        power: whether an exponential at temperature 1 is computed as that at tau to the power of tau, where
            tau is a small whole number: three products in place of a special function, which are few.
    """

    warps: int = 4
    each: int = 8
    caching: bool = False
    power: bool = False


class Size(NamedTuple):
    """A size, by which a layout is chosen.

    Attributes:
        capability: compute capability of the GPU, 90 for 9.0.
        most_classes: the table's entry with the fewest classes that are at least the row's is taken.
        bytes: of one logit of the student.
        few: whether the batch has at most `FEW_ROWS` rows.
    """

    capability: int
    most_classes: int
    bytes: int
    few: bool


# Rows of a batch that does not fill a GPU.
FEW_ROWS = 512
Layout = TypeVar("Layout")


def find_layout(
    table: dict[Size, Layout],
    by_default: Layout,
    capability: int | None,
    classes: int,
    item_bytes: int,
    rows: int,
) -> Layout:
    """Return the layout that a table has for a size; the default one where it has none.

    Args:
        table: layouts by size.
        by_default: layout of sizes that were not measured.
        capability: compute capability of the GPU, 90 for 9.0; None where there is none.
        classes: of a row.
        item_bytes: bytes of one logit of the student.
        rows: of the batch.
    """
    few = rows <= FEW_ROWS
    fits = [
        size
        for size in table
        if (size.capability, size.bytes, size.few) == (capability, item_bytes, few)
        and size.most_classes >= classes
    ]
    return table[min(fits, key=lambda size: size.most_classes)] if fits else by_default
