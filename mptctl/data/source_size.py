"""The size of a source, before any of it is held out: folders are listed, and no picture is read."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from mptctl.data.characters import CLASS_NAMES, TEST_PER_CLASS, TRAIN_PER_CLASS
from mptctl.data.image_folder import class_folders, parts_of, picture_files
from mptctl.data.manifest import TEST, TRAIN
from mptctl.data.sources import arrange_digits
from mptctl.errors import DataError, UsageError
from mptctl.names import Source


class SourceSize(NamedTuple):
    """The number of classes and pictures of a source."""

    classes: int
    train: int
    test: int


CIFAR = {"cifar10": SourceSize(10, 50_000, 10_000), "cifar100": SourceSize(100, 50_000, 10_000)}


def count_source(source: Source, root: Path | None) -> SourceSize:
    """Count classes and pictures.

    Args:
        source: as `read_source`.
        root: data folder; only folders of classes need it.

    Raises:
        UsageError: no data root where one is needed.
        DataError: no class folders there.
    """
    if source == "characters":
        classes = len(CLASS_NAMES)
        return SourceSize(classes, TRAIN_PER_CLASS * classes, TEST_PER_CLASS * classes)
    if source == "digits":
        _, labels, train = arrange_digits()
        return SourceSize(len(set(labels.tolist())), train, len(labels) - train)
    if source in CIFAR:
        return CIFAR[source]
    if root is None:
        raise UsageError(f"{source}: needs --data-root DIR, the folder that holds the data")
    root = root.expanduser().resolve()
    names = class_folders(root / "train")
    if not names:
        raise DataError(
            f"{root}: holds no class folder below train/; name the folder that holds train/ and val/"
        )
    folders = {code: folder for folder, code in parts_of(root).items()}
    train, test = (
        sum(len(picture_files(root / folders[code] / name)) for name in names) if code in folders else 0
        for code in (TRAIN, TEST)
    )
    return SourceSize(len(names), train, test)
