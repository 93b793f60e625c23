"""Folders of classes as a source of `pack`."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from mptctl.data.listing.image_folder import find_part_folders, list_class_folders, list_pictures
from mptctl.data.packing.source import OneByOneSource, Original, Stamp
from mptctl.data.picture_kinds import find_passed_over
from mptctl.errors import DataError


@dataclass(frozen=True, eq=False, kw_only=True)
class FolderSource(OneByOneSource):
    """Picture files ``PART/CLASS/FILE`` or ``CLASS/FILE`` below a folder; these paths are the ids.

    Attributes:
        root: the folder.
    """

    root: Path

    def folders(self) -> set[str]:
        """Return the paths of all class folders below the root, also of empty ones."""
        parts = find_part_folders(self.root)
        return {
            f"{part}/{name}".strip("/") for part in parts for name in list_class_folders(self.root / part)
        }

    def where(self, row: int) -> str:
        """Return the path of the file."""
        return str(self.root / self.ids[row])

    def stamp(self, row: int) -> Stamp:
        """Return size and last change of the file; OSError if it is gone."""
        stat = os.stat(self.root / self.ids[row])
        return Stamp(stat.st_size, stat.st_mtime_ns)

    def read(self, row: int) -> Original:
        """Read the file of one row; DataError if it cannot be read."""
        return read_file(self.where(row))


def list_folder(root: Path) -> FolderSource:
    """List the pictures of an image folder; no picture is opened. DataError as of `list_pictures`."""
    listed = list_pictures(root, needs_test=False)
    parts = find_part_folders(root)
    first_folders = [path.partition("/")[0] for path in listed.paths]
    return FolderSource(
        class_names=listed.class_names,
        ids=listed.paths,
        labels=listed.labels,
        notes=find_passed_over(root, parts).lines(),
        parts=[folder if folder in parts else "" for folder in first_folders],
        root=root,
    )


def read_file(path: str) -> Original:
    """Read the bytes and the last change of a file.

    Raises:
        DataError: the file cannot be read; the message does not name it.
    """
    try:
        with open(path, "rb") as stream:
            return Original(stream.read(), os.fstat(stream.fileno()).st_mtime_ns)
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})") from error
