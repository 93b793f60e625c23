"""Splits that `mptctl split` does not write: of pictures without labels."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import numpy as np

from mptctl.data.classes import ClassSplit
from mptctl.data.listing.listing import Checks, Listing, check_listing, make_rows
from mptctl.data.listing.recognise import recognise_kind
from mptctl.data.manifest import BAD, TEST
from mptctl.data.picture_kinds import EXTENSIONS, is_read, is_unread_picture, walk_visible
from mptctl.data.places import find_picture_root
from mptctl.data.sources import scan_listed
from mptctl.data.split import Split, split_of
from mptctl.data.split_file import SplitRequest
from mptctl.errors import DataError, some
from mptctl.names import PlaceKind


def make_unlabelled_split(
    root: Path, class_names: tuple[str, ...], checks: Checks = Checks(), data_root: Path | None = None
) -> tuple[Split, list[str]]:
    """List and check pictures without labels, and make a split of them; nothing is written.

    Args:
        root: a folder, with pictures at any depth; or a table of paths below its folder; or a pattern of tar
            shards. Hidden files do not count. In a folder, pictures of kinds that are not read are bad.
        class_names: names of the classes that a model knows. Every label of the split is 0, without meaning.
        checks: how each picture is checked.
        data_root: folder that the pictures of a table are below; None: that of the table.

    Returns:
        The split, all of whose pictures are in the test part, and one line for each bad picture. In a folder
        the ids are paths below it.

    Raises:
        BadPictures: see `check_listing`.
        DataError: ``root`` is none of these, or has no good picture.
        UsageError: ``data_root`` is given for a folder.
    """
    kind = find_place_kind(root)
    below = find_picture_root(str(root), data_root, kind)
    if kind == "imagefolder":
        run_root = root
        listed = check_listing(_list_all_pictures(root), checks)
    else:
        run_root = root.parent
        listed = scan_listed(kind, str(root), below, {}, None, checks, labelled=False)
    problems = listed.problems
    is_bad = listed.manifest.parts == BAD
    if is_bad.all():
        raise DataError(
            f"{root}: none of its {len(is_bad)} pictures can be used: {some(problems, separator='; ')}"
        )
    parts = np.where(is_bad, np.uint8(BAD), np.uint8(TEST))
    manifest = replace(listed.manifest, class_names=class_names, parts=parts)
    request = SplitRequest(source=manifest.source, data_root=str(manifest.root), old_fraction=1.0)
    classes = ClassSplit(class_names, len(class_names))
    return split_of(
        manifest, classes, request, run_root, verify=checks.verify, quarantined=problems
    ), problems


def _list_all_pictures(root: Path) -> Listing:
    """List the pictures of a folder at any depth; links to folders are followed, each folder once."""
    paths = sorted(
        (folder / name).relative_to(root).as_posix()
        for folder, names in walk_visible(root, follow_links=True)
        for name in names
        if is_read(name) or is_unread_picture(name)
    )
    if not paths:
        raise DataError(
            f"{root}: holds no picture ({', '.join(EXTENSIONS)}); name the folder that they are in"
        )
    unread = {
        row: f"{os.path.splitext(path)[1].lower()} is not read; convert it to PNG or JPEG"
        for row, path in enumerate(paths)
        if is_unread_picture(os.path.basename(path))
    }
    columns = {"path": paths, "label": [0] * len(paths), "part": [TEST] * len(paths)}
    return Listing("imagefolder", root, (), make_rows(columns, unread, {}))


def find_place_kind(root: Path) -> PlaceKind:
    """Return the kind of a place of pictures without labels: every folder is an image folder here.

    Raises:
        DataError: the place is neither a folder, nor a table or shards.
    """
    if root.is_dir():
        return "imagefolder"
    kind = recognise_kind(str(root))
    if kind not in ("table", "webdataset"):
        raise DataError(
            f"{root}: not a folder; name one that holds pictures, a table of their paths (.csv, .parquet), "
            "or tar shards ('DIR/*.tar')"
        )
    return kind
