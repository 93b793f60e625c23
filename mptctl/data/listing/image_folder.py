"""Pictures as files: a folder for each part, with a folder for each class in it."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from mptctl.data.manifest import BAD, TEST, TRAIN, VAL, Manifest, pack_paths
from mptctl.data.picture_kinds import EXTENSIONS, is_read
from mptctl.data.verify import CheckedFiles, check_files
from mptctl.errors import DataError, some
from mptctl.names import OnBad, Progress, Source, Verify, tell_nobody

# Names under which other programs keep their validation part.
VALIDATION = ("val", "validation", "valid", "dev", "eval")
# Words for the parts, in names of files and folders and in columns.
PART_WORDS = {"train": "train", **dict.fromkeys(VALIDATION, "val"), "test": "test"}
# The layout that messages say they expected.
EXPECTED = "train/ and val/, or train/ and test/, or all three, with one folder of pictures per class"


class BadPictures(DataError):
    """Picture files that cannot be used.

    Args:
        problems: one line for each, with its path and what is wrong with it.
        total: how many files were looked at.
        advice: what to do about them.
    """

    def __init__(
        self,
        problems: list[str],
        total: int,
        advice: str = "repair or remove them, or keep them out with --on-bad quarantine",
    ) -> None:
        self.problems = problems
        super().__init__(
            f"{len(problems)} of {total} pictures cannot be used: {some(problems, separator='; ')}; {advice}"
        )


class ListedPictures(NamedTuple):
    """The picture files of an image folder.

    Attributes:
        class_names: sorted.
        paths: below the folder, with ``/`` between folders.
        labels: index into ``class_names`` of each path.
        parts: TRAIN, VAL or TEST of each path.
    """

    class_names: tuple[str, ...]
    paths: list[str]
    labels: list[int]
    parts: list[int]


def scan_folder(
    root: Path,
    *,
    verify: Verify = "header",
    on_bad: OnBad = "fail",
    needs_test: bool = True,
    progress: Progress = tell_nobody,
) -> tuple[Manifest, list[str]]:
    """List and check ``train/CLASS/*``, and ``val/CLASS/*`` and ``test/CLASS/*`` as `parts_of` says.

    Args and errors: as `read_source`; without ``needs_test`` there may be ``train/`` alone.
    """
    listed = list_pictures(root, needs_test=needs_test)
    paths = listed.paths
    checked = check_files(str(root), paths, verify=verify, progress=progress)
    problems = [f"{root / paths[row]}: {problem}" for row, problem in checked.problems]
    if problems and on_bad == "fail":
        raise BadPictures(problems, len(paths))
    labels, parts = np.array(listed.labels, dtype=np.int32), np.array(listed.parts, dtype=np.uint8)
    rows = ListedRows(listed.class_names, labels, parts)
    return manifest_of("imagefolder", root, rows, checked, paths), problems


class ListedRows(NamedTuple):
    """Class names, and label and part of each picture, before the files are checked."""

    class_names: tuple[str, ...]
    labels: NDArray[np.int32]
    parts: NDArray[np.uint8]


def manifest_of(
    source: Source, root: Path, rows: ListedRows, checked: CheckedFiles, names: Sequence[str]
) -> Manifest:
    """The manifest of checked pictures; those with a problem get the part BAD.

    Args:
        source: its name.
        root: the folder that paths or shards are below.
        rows: class names, labels and parts.
        checked: sizes and kinds of the files, and problems by row.
        names: paths below the root, or names within shards.
    """
    path_bytes, path_offsets = pack_paths(names)
    parts = rows.parts.copy()
    parts[[row for row, _ in checked.problems]] = BAD
    return Manifest(
        source=source,
        root=root,
        class_names=rows.class_names,
        labels=rows.labels,
        parts=parts,
        heights=checked.heights,
        widths=checked.widths,
        kinds=checked.kinds,
        path_bytes=path_bytes,
        path_offsets=path_offsets,
        sizes=checked.sizes,
        mtimes=checked.mtimes,
    )


def list_pictures(root: Path, *, needs_test: bool = True) -> ListedPictures:
    """List the pictures of an image folder in the order of a manifest's rows; none is opened.

    Args:
        root: the folder.
        needs_test: without it there may be ``train/`` alone.

    Raises:
        DataError: another layout than expected.
    """
    folders = parts_of(root)
    first = next(iter(folders))
    names = class_folders(root / first)
    if not names:
        raise DataError(f"{root}: holds no class folder below train/; expected {EXPECTED}")
    if needs_test and TEST not in folders.values():
        raise DataError(
            f"{root}: holds no val/ or test/; expected {EXPECTED}; or hold one out with --test-fraction 0.2"
        )
    for folder in folders:
        strangers = sorted(set(class_folders(root / folder)) - set(names))
        if strangers:
            raise DataError(
                f"{root / folder}: classes that train/ does not have: {some(strangers)}; "
                "give both the same folders"
            )
    paths: list[str] = []
    labels: list[int] = []
    codes: list[int] = []
    for part, code in folders.items():
        for label, name in enumerate(names):
            files = picture_files(root / part / name)
            if part == first and not files:
                raise DataError(
                    f"{root / part / name}: holds no picture ({', '.join(EXTENSIONS)}); "
                    "add some or remove the folder"
                )
            paths += [f"{part}/{name}/{file}" if part else f"{name}/{file}" for file in files]
            labels += [label] * len(files)
            codes += [code] * len(files)
        if needs_test and code not in codes:
            raise DataError(f"{root / part}: holds no picture in its class folders; expected {EXPECTED}")
    return ListedPictures(tuple(names), paths, labels, codes)


def parts_of(root: Path) -> dict[str, int]:
    """The part of each folder of an image folder, by name: training first, test last.

    A folder without parts is all training part. ``val/``, or as other programs call it ``validation``,
    ``valid``, ``dev`` or ``eval``, is the test part, as with ImageNet, whose ``test/`` has no labels; where
    ``test/`` has class folders too, it is the test part, and ``val/``, if there is one, the validation part.
    """
    if not class_folders(root / "train") and class_folders(root):
        return {"": TRAIN}
    folders = {"train": TRAIN}
    has_test = bool(class_folders(root / "test"))
    held_out = [name for name in VALIDATION if (root / name).is_dir()]
    if len(held_out) > 1:
        raise DataError(f"{root}: holds {' and '.join(held_out)}, which are all validation parts; keep one")
    if held_out:
        folders[held_out[0]] = VAL if has_test else TEST
    if has_test:
        folders["test"] = TEST
    return folders


def class_folders(folder: Path) -> list[str]:
    """Names of the folders in a folder but hidden ones, sorted; none where it is no folder."""
    return _names_in(folder, lambda entry: entry.is_dir() and entry.name[0] != ".")


def picture_files(folder: Path) -> list[str]:
    """Names of the pictures in a folder that are read, sorted; none where it is no folder."""
    return _names_in(folder, lambda entry: is_read(entry.name) and entry.is_file())


def _names_in(folder: Path, taken: Callable[[os.DirEntry[str]], bool]) -> list[str]:
    if not folder.is_dir():
        return []
    try:
        return sorted(entry.name for entry in os.scandir(folder) if taken(entry))
    except OSError as error:
        raise DataError(f"{folder}: cannot be read ({error.strerror}); check its permissions") from error
