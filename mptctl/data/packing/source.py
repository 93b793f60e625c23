"""Pictures that `pack` is given: what is known of each one before any is read, and how they are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mptctl.data.listing.image_folder import PART_WORDS, BadPictures
from mptctl.data.listing.labelled_rows import LabelledRows, arrange
from mptctl.errors import some

if TYPE_CHECKING:
    import pyarrow as pa

# Pictures that a thread takes at once: a kill costs at most these of each thread again.
CHUNK = 16


class Original(NamedTuple):
    """The encoded bytes of a picture at its source, and the nanosecond of the file's last change."""

    content: bytes
    mtime: int = 0


class Reading(NamedTuple):
    """A picture whose turn has come.

    Attributes:
        row: its number in the source.
        read: gives its bytes, in any thread; DataError, without the picture's name, where it cannot.
    """

    row: int
    read: Callable[[], Original]


class Stamp(NamedTuple):
    """By what a changed original is known."""

    size: int
    mtime: int


@dataclass(frozen=True, eq=False, kw_only=True)
class PackSource(ABC):
    """The pictures of one place.

    Attributes:
        class_names: in the source's order.
        ids: of each picture, in the order in which they are read; without a suffix where the source names no
            file.
        labels: index into ``class_names`` of each.
        parts: ``train``, ``val``, ``test``, or "" where the source has no parts.
        further: columns beside the known ones, a row a picture; None where there are none.
        notes: what a person is told of the place.
        digest: of what the place says of itself, where single pictures have no stamp.
    """

    class_names: tuple[str, ...]
    ids: list[str]
    labels: list[int]
    parts: list[str]
    further: pa.Table | None = None
    notes: list[str] = field(default_factory=list)
    digest: str = ""

    def __len__(self) -> int:
        return len(self.ids)

    def folders(self) -> set[str]:
        """Folders of classes that a copy has, also where they are empty."""
        places = {*zip(self.parts, self.labels, strict=True)}
        return {"/".join(filter(None, (part, self.class_names[label]))) for part, label in places}

    @abstractmethod
    def where(self, row: int) -> str:
        """The place of one picture, for messages."""

    def stamp(self, row: int) -> Stamp | None:
        """The present state of an original; None where it is as the digest says.

        Raises:
            OSError: it is gone.
        """
        return None

    @abstractmethod
    def readings(self, rows: Sequence[int]) -> Iterator[list[Reading]]:
        """The pictures of some rows, ascending, a few at a time: what one thread takes at once."""


class ClassedRows(NamedTuple):
    """Class and part of rows, in their source's own order: fields of a `PackSource`."""

    class_names: tuple[str, ...]
    labels: list[int]
    parts: list[str]
    notes: list[str]


def class_rows(rows: LabelledRows, known: Sequence[str] | None, what: str, advice: str) -> ClassedRows:
    """Find class and part of each row as `arrange` does; classes without a picture are left out.

    Args:
        rows, known, what: as of `arrange`.
        advice: what to do about bad rows.

    Raises:
        DataError: as of `arrange`; `BadPictures`: rows that cannot be used, all of them named.
    """
    arranged = arrange(rows, known, what)
    if rows.problems:
        lines = [f"{rows.where(row)}: {problem}" for row, problem in sorted(rows.problems.items())]
        raise BadPictures(lines, len(rows.ids), advice)
    labels = np.empty_like(arranged.labels)
    labels[arranged.order] = arranged.labels
    there, positions = np.unique(labels, return_inverse=True)
    names = arranged.class_names
    empty = [names[label] for label in sorted(set(range(len(names))) - set(there.tolist()))]
    notes = [f"left out: {len(empty)} of {len(names)} classes, which have no picture: {some(empty)}"]
    return ClassedRows(
        class_names=tuple(names[label] for label in there.tolist()),
        labels=positions.tolist(),
        parts=[PART_WORDS[word] for word in rows.parts] or [""] * len(rows.ids),
        notes=notes if empty else [],
    )
