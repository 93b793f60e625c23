"""Files of a folder that are read as pictures, and those that are passed over beside them."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path, PurePath
from typing import NamedTuple

from mptctl.errors import DataError, some

# Pillow's names of formats that are read under a suffix of their own alone; JPEG and PNG are read under each.
FORMATS = {".webp": "WEBP", ".bmp": "BMP", ".gif": "GIF", ".tif": "TIFF", ".tiff": "TIFF"}
EXTENSIONS = (".jpg", ".jpeg", ".jpe", ".jfif", ".png", *FORMATS)
# Pictures that Pillow alone does not open: of phones, of cameras, and drawings.
OTHER_PICTURES = frozenset((".heic", ".heif", ".jxl", ".dng", ".cr2", ".cr3", ".nef", ".arw", ".svg"))


class PassedOver(NamedTuple):
    """Files that are not read.

    Attributes:
        unread: pictures of kinds that are not read, by suffix.
        elsewhere: pictures of kinds that are read, outside the class folders.
        others: files that are no pictures.
    """

    unread: Counter[str]
    elsewhere: list[str]
    others: int

    def lines(self) -> list[str]:
        """A line for each kind of them that is there."""
        said = []
        if self.unread:
            kinds = some((f"{count:,} {suffix}" for suffix, count in self.unread.most_common()), 6)
            said.append(
                f"warning: passed over pictures of kinds that are not read: {kinds}; "
                "convert them to PNG or JPEG"
            )
        if self.elsewhere:
            count = len(self.elsewhere)
            said.append(
                f"warning: passed over {count:,} pictures that do not lie right in a class folder "
                f"({some(self.elsewhere)}); move them into one"
            )
        if self.others:
            said.append(f"passed over {self.others:,} files that are no pictures")
        return said


def is_read(name: str) -> bool:
    """Tells by its name whether a file is read as a picture; a hidden one never is."""
    return name.lower().endswith(EXTENSIONS) and not name.startswith(".")


def is_unread_picture(name: str) -> bool:
    """Tells by its name whether a file is a picture of a kind that is not read."""
    suffix = PurePath(name).suffix.lower()
    return (
        not name.startswith(".") and not is_read(name) and (suffix in OTHER_PICTURES or suffix in _pillows())
    )


def passed_over_in_classes(root: Path, parts: Iterable[str]) -> PassedOver:
    """Gather the files of an image folder that are not read.

    Args:
        root: the folder.
        parts: folders in it that hold class folders.

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
            others += count_others(names)
    return PassedOver(unread, elsewhere, others)


def passed_over_at_any_depth(root: Path) -> PassedOver:
    """Count the files that are no pictures, in a folder of pictures at any depth; `predict` names the others.

    Raises:
        DataError: a folder cannot be read.
    """
    return PassedOver(Counter(), [], sum(count_others(names) for _, names in walk_visible(root)))


def count_others(names: Iterable[str]) -> int:
    """The number of files that are no pictures."""
    return sum(not is_read(name) and not is_unread_picture(name) for name in names)


def walk_visible(root: Path, *, follow_links: bool = False) -> Iterator[tuple[Path, list[str]]]:
    """Every folder that is not hidden, and the names of its files, sorted.

    Args:
        root: the folder to begin with.
        follow_links: go through links to folders too, into each folder once.

    Raises:
        DataError: a folder cannot be read.
    """

    def fail(error: OSError) -> None:
        raise DataError(
            f"{error.filename}: cannot be read ({error.strerror}); check its permissions"
        ) from error

    seen: set[str] = set()
    for folder, folders, names in os.walk(root, onerror=fail, followlinks=follow_links):
        real = os.path.realpath(folder)
        if real in seen:
            folders.clear()
            continue
        seen.add(real)
        folders[:] = sorted(name for name in folders if not name.startswith("."))
        yield Path(folder), sorted(names)


@cache
def _pillows() -> frozenset[str]:
    """Suffixes of what Pillow opens."""
    from PIL import Image

    Image.init()
    return frozenset(suffix for suffix, kind in Image.registered_extensions().items() if kind in Image.OPEN)
