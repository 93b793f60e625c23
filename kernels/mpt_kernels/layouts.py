"""Layouts of the row kernels: what a program holds and how many warps it has."""

from typing import Literal, NamedTuple, TypeVar

# Who adds up the sums of all programs: the last program, a launch of its own, or a launch that is made ready while
# the row kernel runs, and waits for its end (from sm_90 on).
AddedBy = Literal["last", "launch", "ready launch"]


class NarrowLayout(NamedTuple):
    """How a program computes rows that lie whole in registers.

    Attributes:
        held: classes of a row that one lane of a warp holds at most.
        warps: of a program. A row that needs more warps gets them; where it needs fewer, a program has as
            many rows as fill its warps.
        vector: logits of one load of a lane; 0: as many as 16 bytes take.
        registers: most registers of a thread; 0: the compiler's choice.
        stages: of a pipeline in which a program loads its next rows while it computes; 0: none, and a program
            for each block of rows.
        resident: programs of a multiprocessor, where there is a pipeline.
        added_by: who adds up the sums of all programs.
    """

    held: int = 32
    warps: int = 1
    vector: int = 0
    registers: int = 0
    stages: int = 0
    resident: int = 8
    added_by: AddedBy = "last"


class WideLayout(NamedTuple):
    """How a program computes one row in tiles, in two passes.

    Attributes:
        warps: of a program.
        each: classes that one lane holds of a tile; aligned rows take what 16 bytes hold at least.
        unroll: tiles that a loop does at once.
        caching: whether the first pass asks the cache to keep what it loads, the second to drop it, and
            stores to pass it by.
        power: whether an exponential at temperature 1 is computed as that at tau to the power of tau, where
            tau is a small whole number: three products in place of a special function, which are few.
        added_by: who adds up the sums of all programs.
    """

    warps: int = 4
    each: int = 8
    unroll: int = 2
    caching: bool = False
    power: bool = True
    added_by: AddedBy = "last"


class Size(NamedTuple):
    """What a layout is chosen by.

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
# Of sizes that were not measured. So few programs leave room for all registers; by itself the compiler takes
# fewer, and spills an address.
NARROW_BY_DEFAULT = {True: NarrowLayout(registers=255), False: NarrowLayout()}
WIDE_BY_DEFAULT = {True: WideLayout(), False: WideLayout()}


Layout = TypeVar("Layout")


def find_layout(
    table: dict[Size, Layout],
    by_default: dict[bool, Layout],
    capability: int | None,
    classes: int,
    item_bytes: int,
    rows: int,
) -> Layout:
    """Return the layout that a table has for a size; the default one where it has none.

    Args:
        table: layouts by size.
        by_default: layouts of a batch of few and of many rows.
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
    return table[min(fits, key=lambda size: size.most_classes)] if fits else by_default[few]
