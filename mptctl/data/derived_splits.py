"""Splits that `split` does not write: of pictures without labels, and of a run that knows further classes."""

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
from mptctl.data.listing.patterns import root_of
from mptctl.data.listing.recognise import recognise
from mptctl.data.manifest import BAD, TEST, Manifest, pack_paths
from mptctl.data.picture_kinds import EXTENSIONS, is_read, is_unread_picture, walk_visible
from mptctl.data.split import Split, load_split, split_of
from mptctl.data.split_file import (
    SPLIT_NAME,
    SplitRequest,
    counts_of,
    fingerprint_of,
    manifest_name,
    parse_split_file,
)
from mptctl.data.verify import CheckedFiles, check_files
from mptctl.errors import DataError, UsageError, some
from mptctl.names import OnBad, PlaceKind, Progress, Verify, tell_nobody

# The way in which Python shows a byte of a file's name that is not UTF-8.
SURROGATE = re.compile("[\ud800-\udfff]")


def unlabelled_split(
    root: Path,
    class_names: tuple[str, ...],
    *,
    verify: Verify = "header",
    on_bad: OnBad = "fail",
    progress: Progress = tell_nobody,
) -> tuple[Split, list[str]]:
    """List and check pictures, so that every loader can read them; nothing is written.

    Args:
        root: a folder; pictures in its folders count too, hidden files do not. Pictures of kinds that are
            not read are bad files. Or a table of paths below its folder, or a pattern of tar shards.
        class_names: what a model can answer. Every label of the split is 0 and means nothing.
        verify: ``header``, or ``decode`` to decode every file as well.
        on_bad: ``fail`` on bad files, or ``quarantine`` to leave them out.
        progress: told how many files are checked.

    Returns:
        The split, whose ids are paths below the folder, or as of `split`, and one line for each picture that
        is left out.

    Raises:
        DataError: no folder, no picture in it, none that can be used, or bad files, which are named.
    """
    if place_of_pictures(root) != "imagefolder":
        return _listed_split(root, class_names, verify=verify, on_bad=on_bad, progress=progress)
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
    problems = dict(checked.problems)
    for row, path in enumerate(paths):
        if is_unread_picture(os.path.basename(path)):
            suffix = os.path.splitext(path)[1].lower()
            problems[row] = f"{suffix} is not read; convert it to PNG or JPEG"
        if SURROGATE.search(path):
            problems[row] = "its name is not UTF-8"
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
    manifest = _test_manifest(root, class_names, paths, checked, good)
    classes = ClassSplit(class_names, len(class_names))
    return split_of(manifest, classes, _request(root), root, verify=verify, quarantined=left_out), left_out


def _test_manifest(
    root: Path, class_names: tuple[str, ...], paths: list[str], checked: CheckedFiles, rows: list[int]
) -> Manifest:
    """A manifest of some of the files, all of the test part and of the first class."""
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


def _request(root: Path) -> SplitRequest:
    return SplitRequest(
        source="imagefolder",
        data_root=str(root),
        old_fraction=1.0,
        old_names=None,
        order="given",
        seed=0,
        val_fraction=0.0,
    )


def _listed_split(
    place: Path, class_names: tuple[str, ...], **checks: Unpack[Checks]
) -> tuple[Split, list[str]]:
    """As `unlabelled_split`, of a table or of shards."""
    if place_of_pictures(place) == "table":
        listed = scan_table(place, place.resolve().parent, {}, labelled=False, **checks)
    else:
        listed = scan_shards(str(place), root_of(str(place)), None, labelled=False, **checks)
    was = listed.manifest
    parts = np.where(was.parts == BAD, was.parts, np.uint8(TEST))
    if not np.any(parts == TEST):
        raise DataError(f"{place}: none of its {len(was)} pictures can be used: {some(listed.problems)}")
    manifest = replace(was, class_names=class_names, labels=np.zeros_like(was.labels), parts=parts)
    classes = ClassSplit(class_names, len(class_names))
    request = _request(place).model_copy(update={"source": was.source, "data_root": str(was.root)})
    split = split_of(
        manifest, classes, request, place.parent, verify=checks["verify"], quarantined=listed.problems
    )
    return split, listed.problems


def place_of_pictures(root: Path) -> PlaceKind:
    """The kind of a place without labels, which needs no torch to be known.

    Raises:
        DataError: neither a folder, nor a table or shards.
    """
    if root.is_dir():
        return "imagefolder"
    kind = recognise(str(root))
    if kind not in ("table", "webdataset"):
        raise DataError(
            f"{root}: not a folder; name one that holds pictures, a table of their paths (.csv, .parquet), "
            "or tar shards ('DIR/*.tar')"
        )
    return kind


def extend_split(split: Split, known: Sequence[str], added: Sequence[str]) -> Split:
    """The split with further class names, of which it has no picture; nothing is written.

    Args:
        split: stays as it is.
        known: classes that count as old.
        added: classes that come next; those that the split has keep their pictures.
    """
    strangers = [name for name in added if name not in set(split.classes.names)]
    manifest = replace(split.manifest, class_names=(*split.manifest.class_names, *strangers))
    first = (*known, *added)
    names = (*first, *(name for name in split.classes.names if name not in set(first)))
    file = split.file.model_copy(
        update={
            "class_names": list(names),
            "num_old": len(known),
            "counts": counts_of(manifest, names),
            "manifest": manifest_name(manifest),
            "manifest_fingerprint": manifest.fingerprint,
            "fingerprint": fingerprint_of(manifest, names, len(known)),
            "extends": split.fingerprint,
        }
    )
    # Labels of -1, of classes that are not taken, find the last place.
    moved = np.append(label_map(split.classes.names, names), -1)
    labels = moved[split.labels]
    return replace(
        split,
        file=file,
        manifest=manifest,
        classes=ClassSplit(names, len(known)),
        labels=labels,
        fingerprint=file.fingerprint,
    )


def own_split(paths: Iterable[Path], run_root: Path) -> Split | None:
    """The split of its own that a run folder of some checkpoints has; None where all share the run root's.

    Args:
        paths: of checkpoints.
        run_root: where decoded pictures are kept.

    Raises:
        UsageError: two of them have different ones.
        DataError: it is damaged.
    """
    found: dict[str, Split] = {}
    for folder in dict.fromkeys(path.resolve().parent for path in paths):
        file = folder / SPLIT_NAME
        # Run folders hold the run root's split, but for those to which `fewshot --add` added classes.
        if holds_split(folder) and parse_split_file(file.read_bytes(), file).extends is not None:
            split = replace(load_split(folder), run_root=run_root)
            found[split.fingerprint] = split
    if len(found) > 1:
        raise UsageError(
            f"{', '.join(map(str, paths))}: have different splits of their own; "
            "compare each with the run that it was made from"
        )
    return next(iter(found.values()), None)
