"""Image folders: picture files in ``PART/CLASS/``, a folder for each part and in it one for each class."""

from __future__ import annotations

import os
import posixpath
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
VALIDATION_NAMES = ("val", "validation", "valid", "dev", "eval")
# The part that a word means in the name of a file or folder, or in a column.
PART_WORDS = {"train": "train", **dict.fromkeys(VALIDATION_NAMES, "val"), "test": "test"}
# The layout of an image folder, for messages.
EXPECTED_LAYOUT = "train/ and val/, or train/ and test/, or all three, with one folder of pictures per class"


class BadPictures(DataError):
    """Some pictures of a source cannot be used.

    Args:
        problems: one line for each bad picture, with its path and what is wrong with it.
        total: number of pictures that were checked, good and bad.
        advice: what to do about the bad pictures.
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
        class_names: names of the class folders, sorted.
        paths: relative to the image folder, with ``/`` between folders.
        labels: index into ``class_names``, one for each path.
        parts: TRAIN, VAL or TEST, one for each path.
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
    """List and check the pictures of an image folder.

    Args:
        root: the image folder.
        verify, on_bad, progress: as of `read_source`.
        needs_test: False accepts a folder that has only ``train/``.

    Returns:
        The manifest, in which bad pictures have the part BAD, and one line for each bad picture.

    Raises:
        BadPictures: ``on_bad`` is ``fail``, and some picture is bad.
        DataError: as of `list_pictures`.
    """
    listed = list_pictures(root, needs_test=needs_test)
    checked = check_files(str(root), listed.paths, verify=verify, progress=progress)
    problems = [f"{root / listed.paths[row]}: {problem}" for row, problem in checked.problems]
    if problems and on_bad == "fail":
        raise BadPictures(problems, len(listed.paths))
    manifest = make_manifest(
        "imagefolder",
        root,
        listed.paths,
        checked,
        class_names=listed.class_names,
        labels=np.array(listed.labels, dtype=np.int32),
        parts=np.array(listed.parts, dtype=np.uint8),
    )
    return manifest, problems


def make_manifest(
    source: Source,
    root: Path,
    names: Sequence[str],
    checked: CheckedFiles,
    *,
    class_names: tuple[str, ...],
    labels: NDArray[np.int32],
    parts: NDArray[np.uint8],
) -> Manifest:
    """Make the manifest of checked pictures; a picture with a problem gets the part BAD.

    Args:
        source: name of the source.
        root: the folder that paths or shards are below.
        names: (n,) paths below the root, or names within shards.
        checked: facts of the files, and problems by row.
        class_names: one for each class.
        labels: (n,) index into ``class_names``.
        parts: (n,) TRAIN, VAL or TEST, as the source states them.
    """
    path_bytes, path_offsets = pack_paths(names)
    parts = parts.copy()
    parts[[row for row, _ in checked.problems]] = BAD
    return Manifest(
        source=source,
        root=root,
        class_names=class_names,
        labels=labels,
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
    """List the pictures of an image folder by part, class and file name; no picture is opened.

    Args:
        root: the image folder.
        needs_test: False accepts a folder that has only ``train/``.

    Raises:
        DataError: the folder has another layout than `EXPECTED_LAYOUT`, val/ or test/ has a class that
            train/ lacks, or a class has no training picture.
    """
    part_of_folder = find_part_folders(root)
    training_folder = next(iter(part_of_folder))
    class_names = list_class_folders(root / training_folder)
    if not class_names:
        raise DataError(f"{root}: holds no class folder below train/; expected {EXPECTED_LAYOUT}")
    if needs_test and TEST not in part_of_folder.values():
        raise DataError(
            f"{root}: holds no val/ or test/; expected {EXPECTED_LAYOUT}; or hold one out with "
            "--test-fraction 0.2"
        )
    for folder in part_of_folder:
        unknown_classes = sorted(set(list_class_folders(root / folder)) - set(class_names))
        if unknown_classes:
            raise DataError(
                f"{root / folder}: classes that train/ does not have: {some(unknown_classes)}; "
                "give both the same folders"
            )
    paths: list[str] = []
    labels: list[int] = []
    parts: list[int] = []
    for folder, part in part_of_folder.items():
        for label, class_name in enumerate(class_names):
            class_path = posixpath.join(folder, class_name)
            files = list_picture_files(root / class_path)
            if folder == training_folder and not files:
                raise DataError(
                    f"{root / class_path}: holds no picture ({', '.join(EXTENSIONS)}); "
                    "add some or remove the folder"
                )
            paths += [f"{class_path}/{file}" for file in files]
            labels += [label] * len(files)
            parts += [part] * len(files)
        if needs_test and part not in parts:
            raise DataError(
                f"{root / folder}: holds no picture in its class folders; expected {EXPECTED_LAYOUT}"
            )
    return ListedPictures(tuple(class_names), paths, labels, parts)


def find_part_folders(root: Path) -> dict[str, int]:
    """Tell which folder of an image folder is which part.

    ``val/`` may have any name of `VALIDATION_NAMES`. It is the validation part where ``test/`` has class
    folders. Else it is the test part, as with ImageNet, whose ``test/`` has no labels.

    Returns:
        TRAIN, VAL or TEST by the name of the folder, training first and test last. Where the class folders
        lie in ``root`` itself, ``root`` is all training part, and its name here is "".

    Raises:
        DataError: two folders have a name of `VALIDATION_NAMES`.
    """
    if not list_class_folders(root / "train") and list_class_folders(root):
        return {"": TRAIN}
    part_of_folder = {"train": TRAIN}
    has_test = bool(list_class_folders(root / "test"))
    held_out = [name for name in VALIDATION_NAMES if (root / name).is_dir()]
    if len(held_out) > 1:
        raise DataError(f"{root}: holds {' and '.join(held_out)}, which are all validation parts; keep one")
    if held_out:
        part_of_folder[held_out[0]] = VAL if has_test else TEST
    if has_test:
        part_of_folder["test"] = TEST
    return part_of_folder


def list_class_folders(folder: Path) -> list[str]:
    """List the names of the folders in a folder, sorted, without hidden ones; [] if it is no folder."""
    return _list_names(folder, lambda entry: entry.is_dir() and entry.name[0] != ".")


def list_picture_files(folder: Path) -> list[str]:
    """List the names of the picture files in a folder, sorted; [] if it is no folder."""
    return _list_names(folder, lambda entry: is_read(entry.name) and entry.is_file())


def _list_names(folder: Path, is_wanted: Callable[[os.DirEntry[str]], bool]) -> list[str]:
    """List the names of the wanted entries of a folder, sorted; [] if it is no folder.

    Raises:
        DataError: the folder cannot be read.
    """
    if not folder.is_dir():
        return []
    try:
        return sorted(entry.name for entry in os.scandir(folder) if is_wanted(entry))
    except OSError as error:
        raise DataError(f"{folder}: cannot be read ({error.strerror}); check its permissions") from error
