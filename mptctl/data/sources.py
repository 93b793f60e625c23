"""The sources of pictures: embedded characters and digits, torchvision's CIFAR, and folders of classes."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mptctl.data.characters import (
    CLASS_NAMES,
    TEST_PER_CLASS,
    TRAIN_PER_CLASS,
    draw_characters,
    keep_characters,
    load_characters,
)
from mptctl.data.embedded.read import read_digits
from mptctl.data.listing.image_folder import EXPECTED, list_pictures, scan_folder
from mptctl.data.manifest import ARRAY, TEST, TRAIN, Manifest, content_digest
from mptctl.data.plan import random_keys
from mptctl.errors import DataError, UsageError
from mptctl.names import OnBad, Progress, Source, Verify, tell_nobody

EMBEDDED = ("characters", "digits")  # sources that need no data root
# The digits come as one set. Half of each class, drawn with this seed, is for training: about 900.
_DIGITS_SEED = 0
_CIFAR = {
    # name: (class in torchvision, folder)
    "cifar10": ("CIFAR10", "cifar-10-batches-py"),
    "cifar100": ("CIFAR100", "cifar-100-python"),
}


class SourceSize(NamedTuple):
    """The number of classes and pictures of a source."""

    classes: int
    train: int
    test: int


CIFAR_SIZES = {"cifar10": SourceSize(10, 50_000, 10_000), "cifar100": SourceSize(100, 50_000, 10_000)}


def read_source(  # noqa: PLR0913  # one for each flag of `split`
    source: Source,
    root: Path | None,
    *,
    verify: Verify = "header",
    on_bad: OnBad = "fail",
    download: bool = False,
    progress: Progress = tell_nobody,
    seed: int = 0,
    cache_dir: Path | None = None,
    needs_test: bool = True,
) -> tuple[Manifest, list[str]]:
    """List a source's pictures and check them; tables and shards are listed by `scan_table`, `scan_shards`.

    Args:
        source: ``characters``, ``digits``, ``cifar10``, ``cifar100`` or ``imagefolder``.
        root: data folder; not used for the embedded sources.
        verify: ``header``, or ``decode`` to decode every file as well.
        on_bad: ``fail``, or ``quarantine`` to keep bad files out.
        download: fetch CIFAR where it is not there; torchvision checks what comes.
        progress: told how many files are checked.
        seed: of the characters; nothing else here is drawn.
        cache_dir: where the characters are kept for `array_of`; None: nowhere.
        needs_test: a folder of classes must have a test part.

    Returns:
        The manifest, with parts TRAIN, TEST, BAD, and VAL where the source has one, and one line for each
        file that is kept out.

    Raises:
        UsageError: no data root where one is needed, or a source that cannot be fetched.
        DataError: nothing there, a layout other than expected, or bad files, all of them named.
    """
    if download and source not in _CIFAR:
        raise UsageError(f"split {source} --download: only {' and '.join(_CIFAR)} can be fetched")
    if source == "characters":
        pictures, labels, num_train = draw_characters(seed)
        if cache_dir is not None:
            keep_characters(pictures, cache_dir)
        return _array_manifest(source, None, CLASS_NAMES, pictures, labels, num_train), []
    if source == "digits":
        return _array_manifest(source, None, tuple("0123456789"), *arrange_digits()), []
    if root is None:
        raise UsageError(f"split {source}: needs --data-root DIR, the folder that holds the data")
    root = root.expanduser().resolve()
    if download:
        _torchvision_cifar(source, root, train=True, download=True)
    if not root.is_dir():
        raise DataError(f"{root}: not a folder; expected {_expected(source)} in it")
    if not os.access(root, os.R_OK | os.X_OK):
        raise DataError(f"{root}: not readable; expected {_expected(source)} in it")
    if source in _CIFAR:
        names = tuple(_open_cifar(source, root, train=False).classes)
        return _array_manifest(source, root, names, *read_cifar(source, root)), []
    return scan_folder(root, verify=verify, on_bad=on_bad, needs_test=needs_test, progress=progress)


def count_source(source: Source, root: Path | None) -> SourceSize:
    """Count classes and pictures before any are held out; folders are listed, and no picture is read.

    Args:
        source: as `read_source`.
        root: data folder; only folders of classes need it.

    Raises:
        UsageError: no data root where one is needed.
        DataError: another layout than expected.
    """
    if source == "characters":
        classes = len(CLASS_NAMES)
        return SourceSize(classes, TRAIN_PER_CLASS * classes, TEST_PER_CLASS * classes)
    if source == "digits":
        _, labels, train = arrange_digits()
        return SourceSize(len(set(labels.tolist())), train, len(labels) - train)
    if source in CIFAR_SIZES:
        return CIFAR_SIZES[source]
    if root is None:
        raise UsageError(f"{source}: needs --data-root DIR, the folder that holds the data")
    listed = list_pictures(root.expanduser().resolve(), needs_test=False)
    parts = Counter(listed.parts)
    return SourceSize(len(listed.class_names), parts[TRAIN], parts[TEST])


@lru_cache(maxsize=1)
def arrange_digits() -> tuple[NDArray[np.uint8], NDArray[np.int32], int]:
    """The digits in colour, training part first; result as of `read_cifar`."""
    levels, labels = read_digits()
    grey = np.rint(levels * (255 / 16)).astype(np.uint8)
    keys = random_keys(_DIGITS_SEED, 0, np.arange(len(labels)), 0)
    is_train = np.zeros(len(labels), dtype=np.bool_)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        is_train[rows[np.argsort(keys[rows])[: len(rows) // 2]]] = True
    order = np.concatenate([np.flatnonzero(is_train), np.flatnonzero(~is_train)])
    pictures = np.repeat(grey[order][..., None], 3, axis=-1)
    return pictures, labels[order], int(is_train.sum())


@lru_cache(maxsize=1)
def read_cifar(source: str, root: Path) -> tuple[NDArray[np.uint8], NDArray[np.int32], int]:
    """All pictures of CIFAR, training part first.

    Returns:
        (M, H, W, 3) uint8 pictures, (M,) int32 labels in the source's order, and the number of training rows.

    Raises:
        DataError: the files are not there or not those that torchvision keeps.
    """
    parts = [_torchvision_cifar(source, root, train=train) for train in (True, False)]
    pictures = np.concatenate([part[0] for part in parts])
    labels = np.concatenate([part[1] for part in parts])
    return pictures, labels, len(parts[0][1])


def load_array(manifest: Manifest, *, seed: int, cache_dir: Path) -> NDArray[np.uint8]:
    """(M, H, W, 3) uint8 pictures of a manifest without files.

    Args:
        manifest: of a source that is one array.
        seed, cache_dir: as `read_source` had them.

    Raises:
        DataError: they are not what they were when the manifest was made.
    """
    if manifest.source == "characters":
        return load_characters(manifest.content, seed, cache_dir)
    root = manifest.root
    pictures, _, _ = arrange_digits() if root is None else read_cifar(manifest.source, root)
    if content_digest(pictures) != manifest.content:
        raise DataError(
            f"{manifest.source} in {root}: changed since split; restore it, or run split --overwrite"
        )
    return pictures


def _array_manifest(
    source: Source,
    root: Path | None,
    class_names: tuple[str, ...],
    pictures: NDArray[np.uint8],
    labels: NDArray[np.int32],
    num_train: int,
) -> Manifest:
    parts = np.full(len(labels), TRAIN, dtype=np.uint8)
    parts[num_train:] = TEST
    return Manifest(
        source=source,
        root=root,
        class_names=class_names,
        labels=labels,
        parts=parts,
        heights=np.full(len(labels), pictures.shape[1], dtype=np.int32),
        widths=np.full(len(labels), pictures.shape[2], dtype=np.int32),
        kinds=np.full(len(labels), ARRAY, dtype=np.uint8),
        content=content_digest(pictures),
    )


def _torchvision_cifar(
    source: str, root: Path, *, train: bool, download: bool = False
) -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    dataset = _open_cifar(source, root, train=train, download=download)
    return np.asarray(dataset.data), np.asarray(dataset.targets, dtype=np.int32)


def _open_cifar(source: str, root: Path, *, train: bool, download: bool = False) -> Any:
    from torchvision import datasets

    name, folder = _CIFAR[source]
    try:
        with warnings.catch_warnings():
            # The files are pickles of an old numpy, which a new one remarks on.
            warnings.simplefilter("ignore")
            return getattr(datasets, name)(str(root), train=train, download=download)
    except (RuntimeError, OSError) as error:
        raise DataError(
            f"{root / folder}: not there or not the files that torchvision keeps; "
            f"unpack them there, or let split {source} --download fetch them"
        ) from error


def _expected(source: str) -> str:
    if source == "imagefolder":
        return EXPECTED
    return f"{_CIFAR[source][1]}/, as torchvision keeps it"
