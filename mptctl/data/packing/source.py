"""The sources of `pack`: id, class and part of each picture before one is read, and the reading itself."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from mptctl.data.listing.image_folder import PART_WORDS, BadPictures
from mptctl.data.listing.labelled_rows import LabelledRows, arrange_rows
from mptctl.errors import some

if TYPE_CHECKING:
    import pyarrow as pa

# Pictures that a thread takes at once; after a kill, each thread repeats at most so many.
CHUNK = 16


class Original(NamedTuple):
    """The encoded bytes of a picture, and the last change of its file in nanoseconds; 0 without a file."""

    content: bytes
    mtime: int = 0


class Reading(NamedTuple):
    """A picture that is to be read next.

    Attributes:
        row: row of the picture in the source.
        read: reads the picture, in any thread; raises DataError, without the picture's name, if it cannot.
    """

    row: int
    read: Callable[[], Original]


class Stamp(NamedTuple):
    """Bytes and last change (nanoseconds) of an original: they tell whether it has changed."""

    size: int
    mtime: int


@dataclass(frozen=True, eq=False, kw_only=True)
class PackSource(ABC):
    """The pictures of one place, which `pack` copies.

    Attributes:
        class_names: names of the classes, in the source's order.
        ids: id of each picture, in the order of reading; without a suffix where the source names no file.
        labels: index into ``class_names``, one for each picture.
        parts: ``train``, ``val`` or ``test`` for each picture; "" for each where the source has no parts.
        further: further columns, one row for each picture; None without such columns.
        notes: sentences for the user on what was found.
        digest: digest of the tables or shards; "" where each picture has a stamp instead.
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
        """Return the paths of all class folders that a copy as folders has."""
        places = {*zip(self.parts, self.labels, strict=True)}
        return {"/".join(filter(None, (part, self.class_names[label]))) for part, label in places}

    @abstractmethod
    def where(self, row: int) -> str:
        """Return the place of one picture, for messages."""

    def stamp(self, row: int) -> Stamp | None:
        """Return the present stamp of an original; None where ``digest`` tells whether it has changed.

        Raises:
            OSError: the original is gone.
        """
        return None

    @abstractmethod
    def readings(self, rows: Sequence[int]) -> Iterator[list[Reading]]:
        """Yield the readings of some rows, ascending, in lists of at most `CHUNK` for one thread each."""


class OneByOneSource(PackSource):
    """A source whose pictures are read one at a time, each by itself."""

    @abstractmethod
    def read(self, row: int) -> Original:
        """Read one picture, in any thread; DataError, without the picture's name, if that fails."""

    def readings(self, rows: Sequence[int]) -> Iterator[list[Reading]]:
        """Yield the readings of some rows, `CHUNK` at a time; each reads its picture by `read`."""
        for start in range(0, len(rows), CHUNK):
            yield [Reading(row, partial(self.read, row)) for row in rows[start : start + CHUNK]]


class ClassedRows(NamedTuple):
    """Class and part of each row, in the source's order, and notes: fields of a `PackSource`."""

    class_names: tuple[str, ...]
    labels: list[int]
    parts: list[str]
    notes: list[str]


def classify_rows(rows: LabelledRows, known: Sequence[str] | None, what: str, advice: str) -> ClassedRows:
    """Give each row its class and part as `arrange_rows` does; leave out classes without a picture.

    Args:
        rows, known, what: as of `arrange_rows`.
        advice: what to do about bad rows, for the message.

    Raises:
        DataError: as of `arrange_rows`.
        BadPictures: there are bad rows; names all of them.
    """
    arranged = arrange_rows(rows, known, what)
    if rows.problems:
        lines = [f"{rows.where(row)}: {problem}" for row, problem in sorted(rows.problems.items())]
        raise BadPictures(lines, len(rows.ids), advice)
    labels = np.empty_like(arranged.labels)
    labels[arranged.order] = arranged.labels
    used, positions = np.unique(labels, return_inverse=True)
    names = arranged.class_names
    empty = [names[label] for label in np.setdiff1d(np.arange(len(names)), used)]
    notes = [f"left out: {len(empty)} of {len(names)} classes, which have no picture: {some(empty)}"]
    return ClassedRows(
        class_names=tuple(names[label] for label in used.tolist()),
        labels=positions.tolist(),
        parts=[PART_WORDS[word] for word in rows.parts] or [""] * len(rows.ids),
        notes=notes if empty else [],
    )
