"""Image folders: picture files in ``PART/CLASS/``, a folder for each part and in it one for each class."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mptctl.data.listing.listing import Listing, make_rows
from mptctl.data.manifest import TEST, TRAIN, VAL
from mptctl.data.picture_kinds import EXTENSIONS, is_read
from mptctl.errors import DataError, some
from mptctl.names import Part

# Names under which other programs keep their validation part.
VALIDATION_NAMES = ("val", "validation", "valid", "dev", "eval")
# The part that a word means in the name of a file or folder, or in a column.
PART_WORDS: dict[str, Part] = {"train": "train", **dict.fromkeys(VALIDATION_NAMES, "val"), "test": "test"}
# The layout of an image folder, for messages.
EXPECTED_LAYOUT = "train/ and val/, or train/ and test/, or all three, with one folder of pictures per class"


def list_folder(root: Path, *, needs_test: bool = True) -> Listing:
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
    columns: dict[str, list[Any]] = {"path": [], "label": [], "part": [], "word": []}
    for folder, part in part_of_folder.items():
        if unknown_classes := sorted(set(list_class_folders(root / folder)) - set(class_names)):
            raise DataError(
                f"{root / folder}: classes that train/ does not have: {some(unknown_classes)}; "
                "give both the same folders"
            )
        for label, class_name in enumerate(class_names):
            class_path = posixpath.join(folder, class_name)
            files = list_picture_files(root / class_path)
            if folder == training_folder and not files:
                raise DataError(
                    f"{root / class_path}: holds no picture ({', '.join(EXTENSIONS)}); "
                    "add some or remove the folder"
                )
            columns["path"] += [f"{class_path}/{file}" for file in files]
            columns["label"] += [label] * len(files)
            columns["part"] += [part] * len(files)
            columns["word"] += [folder] * len(files)
        if needs_test and part not in columns["part"]:
            raise DataError(
                f"{root / folder}: holds no picture in its class folders; expected {EXPECTED_LAYOUT}"
            )
    return Listing("imagefolder", root, tuple(class_names), make_rows(columns, {}, {}))


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
