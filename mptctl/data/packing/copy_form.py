"""The base class of packed copies: where each picture of a source goes, and when it is written."""

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
# Suffix by the first bytes of a picture, for a picture whose source gives it no suffix.
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
    """A picture that is ready for the copy: its row in the source, its record, and its bytes in the copy."""

    row: int
    file: PackedFile
    content: bytes


class Copy(ABC):
    """A packed copy that is being written.

    The methods are called in this order: `holds` for each earlier picture, `remove_outdated`, `begin`, then
    `write` and `keep` for each picture, `close` or `give_up`, `finish`.

    Args:
        out: folder of the copy.
        source: the pictures.

    Attributes:
        done: records of the pictures that this call has written, by row.

    Raises:
        BadPictures: two pictures would get one name.
    """

    def __init__(self, out: Path, source: PackSource) -> None:
        self.out, self.source = out, source
        self.done: dict[int, PackedFile] = {}
        self._names = [self._name(row) for row in range(len(source))]
        self._refuse_shared_names()

    def path(self, row: int, content: bytes) -> str:
        """Return the path of a picture below the copy, or its name within a shard.

        Args:
            row: row of the picture in the source.
            content: bytes of the picture; they give a name without a suffix its suffix.

        Raises:
            DataError: the name has no suffix, and the bytes are of no known format.
        """
        name = self._names[row]
        return name if has_suffix(name) else name + _suffix_of(content)

    @abstractmethod
    def remove_outdated(
        self, before: Mapping[str, PackedFile], same: Mapping[str, PackedFile]
    ) -> Mapping[str, PackedFile]:
        """Remove pictures that the source has no longer, or that have changed there.

        Args:
            before: records of all pictures that earlier calls wrote, by id.
            same: the part of ``before`` whose pictures are there, and whose originals have not changed.

        Returns:
            The part of ``same`` whose pictures stay.

        Raises:
            UsageError: there are pictures that no call of `pack` wrote; they would count as the source's.
        """

    @abstractmethod
    def begin(self) -> None:
        """Make the folders, or prepare the shards; remove files that a kill left half written."""

    @abstractmethod
    def holds(self, file: PackedFile) -> bool:
        """Tell whether a picture that an earlier call wrote is still there."""

    @abstractmethod
    def write(self, picture: Prepared) -> None:
        """Write as much of a picture as can be written out of order; called in any thread."""

    @abstractmethod
    def keep(self, pictures: Iterable[Prepared]) -> None:
        """Write what has to be written in order, and record pictures in ``done`` when they are safe."""

    @abstractmethod
    def finish(self, files: Mapping[int, PackedFile]) -> None:
        """Write the files that describe the pictures, if the form has such files.

        Args:
            files: records of all pictures in the copy, by row.
        """

    @abstractmethod
    def close(self) -> None:
        """Finish files that are open, after the last picture."""

    @abstractmethod
    def give_up(self, error: BaseException) -> None:
        """Remove files that are half written, because of an error."""

    def next_place(self) -> list[str]:
        """Return the arguments of `mptctl split` for this copy."""
        return [self._place()] if any(self.source.parts) else [self._place(), "--test-fraction", "0.2"]

    @abstractmethod
    def _place(self) -> str:
        """Return the place that `mptctl split` reads this copy from."""

    @abstractmethod
    def _name(self, row: int) -> str:
        """Return the path or name of a row as `path` does, without a suffix where the source has none."""

    def _key(self, name: str) -> str:
        """Return the part of a name that no two pictures of a copy may share."""
        return name

    def _refuse_shared_names(self) -> None:
        """Raise BadPictures where two pictures have names with one `_key`."""
        keys = [self._key(name) for name in self._names]
        counts = Counter(keys)
        problems = [
            f"{self.source.where(row)}: {name} is not its name alone"
            for row, (name, key) in enumerate(zip(self._names, keys, strict=True))
            if counts[key] > 1
        ]
        if problems:
            raise BadPictures(problems, len(keys), "give each an id of its own before the first dot")


def to_safe_path(row_id: str) -> str:
    """Turn an id into a relative path that stays below its folder, and names no hidden file.

    >>> to_safe_path("../photos//.a.jpg")
    'photos/_a.jpg'
    """
    *folders, name = [part for part in row_id.split("/") if part not in ("", ".", "..")] or ["_"]
    visible_name = f"_{name[1:]}" if name.startswith(".") else name
    return "/".join([*folders, visible_name])


def has_suffix(name: str) -> bool:
    """Tell whether a name ends in the suffix of a picture format."""
    return name.lower().endswith(EXTENSIONS)


def without_suffix(name: str) -> str:
    """Return a name without the suffix of a picture format, if it has one."""
    return os.path.splitext(name)[0] if has_suffix(name) else name


def further_values(source: PackSource, row: int) -> dict[str, Any]:
    """Return the further columns of one picture by name, without empty ones."""
    if source.further is None:
        return {}
    values = {name: source.further.column(name)[row].as_py() for name in source.further.column_names}
    return {name: value for name, value in values.items() if value is not None}


def as_json(value: Any) -> str:
    """Return a value of a further column as JSON; a value of a type that JSON lacks as text."""
    return json.dumps(value, default=str, ensure_ascii=False)


def write_classes(out: Path, source: PackSource) -> None:
    """Write ``classes.txt`` into a copy: the names of the classes, one a line, class 0 first."""
    write_atomically(out / CLASSES_NAME, "".join(f"{name}\n" for name in source.class_names).encode())


def _suffix_of(content: bytes) -> str:
    """Return the suffix of an encoded picture by its first bytes; DataError for an unknown format."""
    for start, suffix in _SUFFIXES.items():
        if content.startswith(start):
            return suffix
    raise DataError("no readable header of a picture")
