"""Pictures that `pack` is given: what is known of each one before any is read, and how they are read."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import pyarrow as pa

# Pictures that a thread takes at once: a kill costs at most these of each thread again.
CHUNK = 16
# Words for the parts in names of files and folders, and in columns.
PART_WORDS = {
    "train": "train",
    "training": "train",
    "val": "val",
    "valid": "val",
    "validation": "val",
    "dev": "val",
    "eval": "val",
    "test": "test",
    "testing": "test",
}


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
        """What one original is now; None where it is as the digest says.

        Raises:
            OSError: it is gone.
        """
        return None

    @abstractmethod
    def readings(self, rows: Sequence[int]) -> Iterator[list[Reading]]:
        """The pictures of some rows, ascending, a few at a time: what one thread takes at once."""
