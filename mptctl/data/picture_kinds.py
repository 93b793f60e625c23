"""Tells by their names which files are read as pictures, and reports files that are passed over."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path, PurePath
from typing import NamedTuple

from mptctl.errors import DataError, some

# Pillow's name of the format that a suffix stands for; JPEG and PNG files are read under any suffix.
FORMATS = {".webp": "WEBP", ".bmp": "BMP", ".gif": "GIF", ".tif": "TIFF", ".tiff": "TIFF"}
EXTENSIONS = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", *FORMATS)
# Suffixes of pictures that Pillow alone does not open: of phones, of cameras, and drawings.
OTHER_PICTURES = frozenset((".heic", ".heif", ".jxl", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".svg"))


class PassedOver(NamedTuple):
    """Files that are not read.

    Attributes:
        unread: number of pictures of kinds that are not read, by suffix.
        elsewhere: paths of pictures that could be read, but lie outside the class folders.
        others: number of files that are no pictures.
    """

    unread: Counter[str]
    elsewhere: list[str]
    others: int

    def lines(self) -> list[str]:
        """Return a line for each of the three kinds of which there are files."""
        lines = []
        if self.unread:
            kinds = some((f"{count:,} {suffix}" for suffix, count in self.unread.most_common()), 6)
            lines.append(
                f"warning: passed over pictures of kinds that are not read: {kinds}; "
                "convert them to PNG or JPEG"
            )
        if self.elsewhere:
            count = len(self.elsewhere)
            lines.append(
                f"warning: passed over {count:,} pictures that do not lie right in a class folder "
                f"({some(self.elsewhere)}); move them into one"
            )
        if self.others:
            lines.append(f"passed over {self.others:,} files that are no pictures")
        return lines


def is_read(name: str) -> bool:
    """Tell by its name whether a file is read as a picture; a hidden file never is."""
    return name.lower().endswith(EXTENSIONS) and not name.startswith(".")


def is_unread_picture(name: str) -> bool:
    """Tell by its name whether a file is a picture of a kind that is not read; a hidden file never is."""
    if name.startswith(".") or is_read(name):
        return False
    suffix = PurePath(name).suffix.lower()
    return suffix in OTHER_PICTURES or suffix in _pillow_suffixes()


def find_passed_over(root: Path, parts: Iterable[str]) -> PassedOver:
    """Find the files of an image folder that are not read.

    Args:
        root: the image folder.
        parts: names of the folders in it that hold class folders.

    Raises:
        DataError: a folder cannot be read.
    """
    unread: Counter[str] = Counter()
    elsewhere: list[str] = []
    others = 0
    for part in parts:
        for folder, names in walk_visible(root / part):
            unread.update(PurePath(name).suffix.lower() for name in names if is_unread_picture(name))
            if folder.parent != root / part:
                elsewhere += [str((folder / name).relative_to(root)) for name in names if is_read(name)]
            others += _count_others(names)
    return PassedOver(unread, elsewhere, others)


def count_passed_over(root: Path) -> PassedOver:
    """Count the files in a folder, at any depth, that are no pictures; unread pictures are not counted.

    Raises:
        DataError: a folder cannot be read.
    """
    return PassedOver(Counter(), [], sum(_count_others(names) for _, names in walk_visible(root)))


def _count_others(names: Iterable[str]) -> int:
    """Count the names that are of no picture, of a kind that is read or not."""
    return sum(not is_read(name) and not is_unread_picture(name) for name in names)


def walk_visible(root: Path, *, follow_links: bool = False) -> Iterator[tuple[Path, list[str]]]:
    """Yield a folder and every folder in it at any depth but hidden ones, with the sorted names of its files.

    Args:
        root: the folder to begin with.
        follow_links: True also follows links to folders; each folder is visited once.

    Raises:
        DataError: a folder cannot be read.
    """

    def raise_error(error: OSError) -> None:
        raise DataError(
            f"{error.filename}: cannot be read ({error.strerror}); check its permissions"
        ) from error

    seen: set[str] = set()
    for folder, folders, names in os.walk(root, onerror=raise_error, followlinks=follow_links):
        real = os.path.realpath(folder)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield Path(folder), sorted(names)


@cache
def _pillow_suffixes() -> frozenset[str]:
    """Return the suffixes of the formats that Pillow opens."""
    from PIL import Image

    Image.init()
    return frozenset(suffix for suffix, kind in Image.registered_extensions().items() if kind in Image.OPEN)
