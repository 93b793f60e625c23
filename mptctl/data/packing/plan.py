"""The plan of a packed copy: the name of each picture in it and its shard, fixed before the first byte."""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from typing import NamedTuple

from mptctl.data.listing.listing import BadPictures
from mptctl.data.listing.shards import sample_key_of
from mptctl.data.packing.source import PackSource
from mptctl.data.picture_kinds import EXTENSIONS, FORMATS
from mptctl.errors import DataError, UsageError
from mptctl.names import PackForm

# Pictures of a shard. Shards are cut by number, so that a picture of another size moves no other one.
SHARD_PICTURES = 1000
# First word of the names of shards of a source without parts.
_WITHOUT_PART = "pictures"
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


class Planned(NamedTuple):
    """The name of a picture in the copy, and its shard.

    Attributes:
        name: path below the copy, or name in the shard.
        is_settled: False where the suffix of ``name`` follows from the bytes that are written.
        shard: name of the shard; "" in a copy as folders.
    """

    name: str
    is_settled: bool
    shard: str = ""

    def path(self, content: bytes, *, is_copied: bool) -> str:
        """Return the final name of a picture.

        Args:
            content: bytes of the picture in the copy.
            is_copied: True for the bytes of the original, whose suffix stays.

        Raises:
            DataError: the name has no suffix, and the bytes are of no known format.
        """
        if self.is_settled or (is_copied and has_suffix(self.name)):
            return self.name
        suffix = next((suffix for start, suffix in _SUFFIXES.items() if content.startswith(start)), None)
        if suffix is None:
            raise DataError("no readable header of a picture")
        return without_suffix(self.name) + suffix


def make_plan(source: PackSource, to: PackForm, *, resizes: bool) -> list[Planned]:
    """Plan where each picture of a source goes.

    Args:
        source: the pictures.
        to: form of the copy.
        resizes: True where pictures may be encoded anew, as JPEG or PNG.

    Raises:
        BadPictures: two pictures would get one name.
        UsageError: a class cannot be the name of a folder.
    """
    plan, counts = [], Counter[str]()
    for row, row_id in enumerate(source.ids):
        part, shard = source.parts[row], ""
        if to == "folder":
            name = _name_in_folder(source, row)
        else:
            name = to_safe_path(row_id)
            shard = f"{part or _WITHOUT_PART}-{counts[part] // SHARD_PICTURES:06d}.tar"
            counts[part] += 1
        is_settled = has_suffix(name) and not (resizes and os.path.splitext(name)[1].lower() in FORMATS)
        plan.append(Planned(name, is_settled, shard))
    _refuse_shared_names(source, plan, to)
    return plan


def _refuse_shared_names(source: PackSource, plan: list[Planned], to: PackForm) -> None:
    """Raise BadPictures where two pictures of a plan would, or might, get one name.

    In a shard, pictures also differ by their names up to the first dot.
    """
    rows_of: dict[str, list[int]] = defaultdict(list)
    for row, planned in enumerate(plan):
        rows_of[sample_key_of(planned.name) if to == "shards" else without_suffix(planned.name)].append(row)
    shared: list[int] = []
    for rows in rows_of.values():
        names = {plan[row].name for row in rows}
        has_settled_suffixes = to == "folder" and all(plan[row].is_settled for row in rows)
        if len(rows) > 1 and not (has_settled_suffixes and len(names) == len(rows)):
            shared += rows
    if shared:
        raise BadPictures(
            [f"{source.where(row)}: {plan[row].name} is not its name alone" for row in sorted(shared)],
            len(plan),
            "give each an id of its own before the first dot",
        )


def _name_in_folder(source: PackSource, row: int) -> str:
    """Return ``PART/CLASS/FILE``; UsageError for a class that cannot be the name of a folder."""
    class_name, folder = source.class_names[source.labels[row]], source.folder(row)
    if "/" in class_name or class_name.startswith("."):
        raise UsageError(f"class {class_name!r}: cannot be the name of a folder; pack with --to shards")
    return f"{folder}/{to_safe_path(source.ids[row]).removeprefix(folder + '/').replace('/', '_')}"


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
