"""Pictures in folders of classes, as `pack` reads them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mptctl.data.listing.image_folder import class_folders, list_pictures, parts_of
from mptctl.data.packing.source import CHUNK, Original, PackSource, Reading, Stamp
from mptctl.data.picture_kinds import passed_over_in_classes
from mptctl.errors import DataError


@dataclass(frozen=True, eq=False, kw_only=True)
class FolderSource(PackSource):
    """``PART/CLASS/FILE`` or ``CLASS/FILE`` below a folder; ids are paths.

    Attributes:
        root: the folder.
    """

    root: Path

    def folders(self) -> set[str]:
        """All folders of classes, also empty ones."""
        parts = parts_of(self.root)
        return {f"{part}/{name}".strip("/") for part in parts for name in class_folders(self.root / part)}

    def where(self, row: int) -> str:
        """The file."""
        return str(self.root / self.ids[row])

    def stamp(self, row: int) -> Stamp:
        """Size and time of the file."""
        found = os.stat(self.root / self.ids[row])
        return Stamp(found.st_size, found.st_mtime_ns)

    def readings(self, rows: Sequence[int]) -> Iterator[list[Reading]]:
        """The files, opened by the thread that reads them."""
        for start in range(0, len(rows), CHUNK):
            yield [Reading(row, partial(read_file, self.where(row))) for row in rows[start : start + CHUNK]]


def list_folder(root: Path) -> FolderSource:
    """List the pictures of an image folder; errors as `list_pictures`."""
    listed = list_pictures(root, needs_test=False)
    parts = parts_of(root)
    first_folders = [path.partition("/")[0] for path in listed.paths]
    return FolderSource(
        class_names=listed.class_names,
        ids=listed.paths,
        labels=listed.labels,
        notes=passed_over_in_classes(root, parts).lines(),
        parts=[folder if folder in parts else "" for folder in first_folders],
        root=root,
    )


def read_file(path: str) -> Original:
    """A file's bytes, and its time of change.

    Raises:
        DataError: it cannot be read, without its name.
    """
    try:
        with open(path, "rb") as stream:
            return Original(stream.read(), os.fstat(stream.fileno()).st_mtime_ns)
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})") from error
