"""Splits that `mptctl split` does not write: of pictures without labels, and with classes added to a run."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Unpack

import numpy as np

from mptctl.data.classes import ClassSplit, label_map
from mptctl.data.held_split import holds_split
from mptctl.data.listing.image_folder import BadPictures
from mptctl.data.listing.listed_source import Checks, scan_shards, scan_table
from mptctl.data.listing.patterns import root_folder_of
from mptctl.data.listing.recognise import recognise_kind
from mptctl.data.manifest import BAD, TEST, Manifest, pack_paths
from mptctl.data.picture_kinds import EXTENSIONS, is_read, is_unread_picture, walk_visible
from mptctl.data.split import Split, load_split, split_of
from mptctl.data.split_file import (
    SPLIT_NAME,
    SplitRequest,
    compute_fingerprint,
    count_parts,
    manifest_name,
    parse_split_file,
)
from mptctl.data.verify import CheckedFiles, check_files
from mptctl.errors import DataError, UsageError, some
from mptctl.names import OnBad, PlaceKind, Progress, Verify, tell_nobody

# The characters by which Python stands for bytes of a file name that is not UTF-8.
SURROGATE = re.compile("[\ud800-\udfff]")


def make_unlabelled_split(
    root: Path,
    class_names: tuple[str, ...],
    *,
    verify: Verify = "header",
    on_bad: OnBad = "fail",
    progress: Progress = tell_nobody,
) -> tuple[Split, list[str]]:
    """List and check pictures without labels, and make a split of them; nothing is written.

    Args:
        root: a folder, with pictures at any depth; or a table of paths below its folder; or a pattern of tar
            shards. Hidden files do not count. In a folder, pictures of kinds that are not read are bad.
        class_names: names of the classes that a model knows. Every label of the split is 0, without meaning.
        verify, on_bad, progress: as of `read_source`.

    Returns:
        The split, all of whose pictures are in the test part, and one line for each bad picture. In a folder
        the ids are paths below it.

    Raises:
        BadPictures: ``on_bad`` is ``fail``, and some picture is bad.
        DataError: ``root`` is none of these, or has no good picture.
    """
    if find_place_kind(root) != "imagefolder":
        return _split_listed(root, class_names, verify=verify, on_bad=on_bad, progress=progress)
    # Links to folders are followed, each folder once.
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
    checked = check_files(str(root), paths, verify=verify, progress=progress)
    problems = _find_problems(paths, checked)
    left_out = [
        f"{os.fsencode(root / paths[row]).decode(errors='replace')}: {problem}"
        for row, problem in sorted(problems.items())
    ]
    if left_out and on_bad == "fail":
        raise BadPictures(left_out, len(paths))
    good = [row for row in range(len(paths)) if row not in problems]
    if not good:
        raise DataError(
            f"{root}: none of its {len(paths)} pictures can be used: {some(left_out, separator='; ')}"
        )
    manifest = _make_test_manifest(root, class_names, paths, checked, good)
    classes = ClassSplit(class_names, len(class_names))
    return split_of(
        manifest, classes, _make_request(root), root, verify=verify, quarantined=left_out
    ), left_out


def _find_problems(paths: list[str], checked: CheckedFiles) -> dict[int, str]:
    """Return what is wrong with bad pictures, by row: the check's problems, an unread kind, or a bad name."""
    problems = dict(checked.problems)
    for row, path in enumerate(paths):
        if is_unread_picture(os.path.basename(path)):
            suffix = os.path.splitext(path)[1].lower()
            problems[row] = f"{suffix} is not read; convert it to PNG or JPEG"
        if SURROGATE.search(path):
            problems[row] = "its name is not UTF-8"
    return problems


def _make_test_manifest(
    root: Path, class_names: tuple[str, ...], paths: list[str], checked: CheckedFiles, rows: list[int]
) -> Manifest:
    """Make a manifest of the given rows of the checked files, all in the test part and of class 0."""
    path_bytes, path_offsets = pack_paths([paths[row] for row in rows])
    return Manifest(
        source="imagefolder",
        root=root,
        class_names=class_names,
        labels=np.zeros(len(rows), dtype=np.int32),
        parts=np.full(len(rows), TEST, dtype=np.uint8),
        heights=checked.heights[rows],
        widths=checked.widths[rows],
        kinds=checked.kinds[rows],
        path_bytes=path_bytes,
        path_offsets=path_offsets,
        sizes=checked.sizes[rows],
        mtimes=checked.mtimes[rows],
    )


def _make_request(root: Path) -> SplitRequest:
    """Make the request of a split whose classes are all old, of pictures in a folder."""
    return SplitRequest(
        source="imagefolder",
        data_root=str(root),
        old_fraction=1.0,
        old_names=None,
        order="given",
        seed=0,
        val_fraction=0.0,
    )


def _split_listed(
    place: Path, class_names: tuple[str, ...], **checks: Unpack[Checks]
) -> tuple[Split, list[str]]:
    """Do what `make_unlabelled_split` does, for a table or shards."""
    if find_place_kind(place) == "table":
        listed = scan_table(place, place.resolve().parent, {}, labelled=False, **checks)
    else:
        listed = scan_shards(str(place), root_folder_of(str(place)), None, labelled=False, **checks)
    before = listed.manifest
    parts = np.where(before.parts == BAD, before.parts, np.uint8(TEST))
    if not np.any(parts == TEST):
        raise DataError(f"{place}: none of its {len(before)} pictures can be used: {some(listed.problems)}")
    manifest = replace(before, class_names=class_names, labels=np.zeros_like(before.labels), parts=parts)
    classes = ClassSplit(class_names, len(class_names))
    request = _make_request(place).model_copy(update={"source": before.source, "data_root": str(before.root)})
    split = split_of(
        manifest, classes, request, place.parent, verify=checks["verify"], quarantined=listed.problems
    )
    return split, listed.problems


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


def extend_split(split: Split, known: Sequence[str], added: Sequence[str]) -> Split:
    """Return a split with further class names; nothing is written.

    The classes are in the order: ``known``, ``added``, the others of the split.

    Args:
        split: the split to extend; stays as it is.
        known: names of classes that count as old.
        added: names of classes that count as new. A class that the split has keeps its pictures; another one
            has no picture.
    """
    before = split.classes.names
    without_pictures = [name for name in added if name not in before]
    manifest = replace(split.manifest, class_names=(*split.manifest.class_names, *without_pictures))
    first = (*known, *added)
    names = (*first, *(name for name in before if name not in set(first)))
    file = split.file.model_copy(
        update={
            "class_names": list(names),
            "num_old": len(known),
            "counts": count_parts(manifest, names),
            "manifest": manifest_name(manifest),
            "manifest_fingerprint": manifest.fingerprint,
            "fingerprint": compute_fingerprint(manifest, names, len(known)),
            "extends": split.fingerprint,
        }
    )
    # The last place is for labels of -1, which stay -1.
    new_labels = np.append(label_map(before, names), -1)
    return replace(
        split,
        file=file,
        manifest=manifest,
        classes=ClassSplit(names, len(known)),
        labels=new_labels[split.labels],
        fingerprint=file.fingerprint,
    )


def find_own_split(paths: Iterable[Path], run_root: Path) -> Split | None:
    """Find the extended split that the run folders of checkpoints have in place of the run root's split.

    `fewshot --add` writes such a split into the run folder.

    Args:
        paths: paths of checkpoints.
        run_root: run root that the returned split gets, with the cache of decoded pictures.

    Returns:
        None where every run has the split of the run root.

    Raises:
        UsageError: two runs have different extended splits.
        DataError: a split is damaged.
    """
    own: dict[str, Split] = {}
    for folder in dict.fromkeys(path.resolve().parent for path in paths):
        file = folder / SPLIT_NAME
        if holds_split(folder) and parse_split_file(file.read_bytes(), file).extends is not None:
            split = replace(load_split(folder), run_root=run_root)
            own[split.fingerprint] = split
    if len(own) > 1:
        raise UsageError(
            f"{', '.join(map(str, paths))}: have different splits of their own; "
            "compare each with the run that it was made from"
        )
    return next(iter(own.values()), None)
