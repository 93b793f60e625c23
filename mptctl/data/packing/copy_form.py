"""The form of a copy: where each picture of a source goes, and how it gets there."""

from __future__ import annotations

import json
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mptctl.data.listing.image_folder import BadPictures
from mptctl.data.packing.records import PackedFile
from mptctl.data.packing.source import PackSource
from mptctl.data.picture_kinds import EXTENSIONS
from mptctl.errors import DataError
from mptctl.files import write_atomically

CLASSES_NAME = "classes.txt"
# First bytes of the formats that are read, and the suffix of a picture whose source gives it none.
_SUFFIXES = {
    b"\xff\xd8": ".jpg",
    b"\x89PNG": ".png",
    b"RIFF": ".webp",
    b"GIF8": ".gif",
    b"BM": ".bmp",
    b"II": ".tif",
    b"MM": ".tif",
}


class Prepared(NamedTuple):
    """A picture as it goes into the copy: its row at the source, its line, its bytes."""

    row: int
    file: PackedFile
    content: bytes


class Copy(ABC):
    """Where each picture of a source goes.

    Args:
        out: the folder of the copy.
        source: of the pictures.

    Attributes:
        done: what became of each picture that this call wrote, by row.

    Raises:
        BadPictures: pictures that would have one name.
    """

    def __init__(self, out: Path, source: PackSource) -> None:
        self.out, self.source = out, source
        self.done: dict[int, PackedFile] = {}
        self._names = [self._name(row) for row in range(len(source))]
        self._refuse_one_name()

    def path(self, row: int, content: bytes) -> str:
        """Path of a picture below the copy, or its name within a shard; by its bytes if it has no suffix.

        Raises:
            DataError: the bytes are no picture's.
        """
        name = self._names[row]
        return name if has_suffix(name) else name + _suffix_of(content)

    @abstractmethod
    def clear(
        self, before: Mapping[str, PackedFile], same: Mapping[str, PackedFile]
    ) -> Mapping[str, PackedFile]:
        """Remove what the source has no longer, or has as another picture.

        Args:
            before: all that earlier calls wrote, by id.
            same: of these, the pictures that are there, and whose originals are what they were.

        Returns:
            Of these, the ones that stay.

        Raises:
            UsageError: there are pictures that no call of ours wrote: they would be taken for the source's.
        """

    @abstractmethod
    def begin(self) -> None:
        """Make what pictures are written into, without what a kill left half written in it."""

    @abstractmethod
    def holds(self, file: PackedFile) -> bool:
        """Tell whether a picture that an earlier call wrote is there."""

    @abstractmethod
    def write(self, picture: Prepared) -> None:
        """Write what can be written out of order, in any thread."""

    @abstractmethod
    def keep(self, pictures: Iterable[Prepared]) -> None:
        """Write what has to be in order, and remember which pictures are there for good."""

    @abstractmethod
    def finish(self, files: Mapping[int, PackedFile]) -> None:
        """Write what stands beside the pictures.

        Args:
            files: lines of all that are in the copy, by row.
        """

    @abstractmethod
    def close(self) -> None:
        """Finish what is open."""

    @abstractmethod
    def give_up(self, error: BaseException) -> None:
        """Remove what is half written."""

    def next_place(self) -> list[str]:
        """Arguments with which `mptctl split` takes the copy."""
        return [self._place(), *([] if any(self.source.parts) else ["--test-fraction", "0.2"])]

    @abstractmethod
    def _place(self) -> str:
        """The copy as a place that `mptctl split` recognises."""

    @abstractmethod
    def _name(self, row: int) -> str:
        """As `path`, without a suffix where the picture has none."""

    def _key(self, name: str) -> str:
        """The key that no two pictures of a copy may share."""
        return name

    def _refuse_one_name(self) -> None:
        keys = [self._key(name) for name in self._names]
        counts = Counter(keys)
        problems = [
            f"{self.source.where(row)}: {name} is not its name alone"
            for row, (name, key) in enumerate(zip(self._names, keys, strict=True))
            if counts[key] > 1
        ]
        if problems:
            raise BadPictures(problems, len(keys), "give each an id of its own before the first dot")


def safe_path(row_id: str) -> str:
    """An id as a path that leads nowhere else, and to no hidden file.

    >>> safe_path("../photos//.a.jpg")
    'photos/_a.jpg'
    """
    *folders, name = [part for part in row_id.split("/") if part not in ("", ".", "..")] or ["_"]
    return "/".join([*folders, f"_{name[1:]}" if name.startswith(".") else name])


def has_suffix(name: str) -> bool:
    """Tell whether a name is one of a picture."""
    return name.lower().endswith(EXTENSIONS)


def stem_of(name: str) -> str:
    """A name without a picture's suffix."""
    return os.path.splitext(name)[0] if has_suffix(name) else name


def further_of(source: PackSource, row: int) -> dict[str, Any]:
    """Further columns of one picture, empty ones left out."""
    if source.further is None:
        return {}
    values = {name: source.further.column(name)[row].as_py() for name in source.further.column_names}
    return {name: value for name, value in values.items() if value is not None}


def as_json(value: Any) -> str:
    """A value of a further column; times and the like as text."""
    return json.dumps(value, default=str, ensure_ascii=False)


def write_classes(out: Path, source: PackSource) -> None:
    """Write the names of the classes, one a line, in the order of their numbers."""
    write_atomically(out / CLASSES_NAME, "".join(f"{name}\n" for name in source.class_names).encode())


def _suffix_of(content: bytes) -> str:
    for start, suffix in _SUFFIXES.items():
        if content.startswith(start):
            return suffix
    raise DataError("no readable header of a picture")
