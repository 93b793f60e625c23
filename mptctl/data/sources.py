"""Reads the sources that are named: embedded characters and digits, CIFAR, and folders of classes."""

from __future__ import annotations

import os
import warnings
from collections import Counter
from collections.abc import Mapping
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
from mptctl.data.listing.image_folder import EXPECTED_LAYOUT, list_folder
from mptctl.data.listing.listing import Checks, ListedSource, check_listing
from mptctl.data.listing.shards import list_shards
from mptctl.data.listing.table import list_table
from mptctl.data.manifest import ARRAY, TEST, TRAIN, Manifest, content_digest
from mptctl.data.plan import random_keys
from mptctl.errors import DataError, UsageError
from mptctl.names import Source

EMBEDDED = ("characters", "digits")  # sources that come with the package and need no data root
# The digits come as one set. About 900, half of each class, are for training; this seed draws them.
_DIGITS_SEED = 0
_CIFAR = {
    # name: (class in torchvision, folder)
    "cifar10": ("CIFAR10", "cifar-10-batches-py"),
    "cifar100": ("CIFAR100", "cifar-100-python"),
}


class SourceSize(NamedTuple):
    """Numbers of classes, training pictures and test pictures of a source."""

    classes: int
    train: int
    test: int


CIFAR_SIZES = {"cifar10": SourceSize(10, 50_000, 10_000), "cifar100": SourceSize(100, 50_000, 10_000)}


def read_source(
    source: Source,
    root: Path | None,
    checks: Checks = Checks(),
    *,
    download: bool = False,
    seed: int = 0,
    cache_dir: Path | None = None,
    needs_test: bool = True,
) -> ListedSource:
    """List and check the pictures of a source that is named; `scan_listed` does so for other sources.

    Args:
        source: ``characters``, ``digits``, ``cifar10``, ``cifar100`` or ``imagefolder``.
        root: data folder; not used for the embedded sources.
        checks: how each picture is checked.
        download: True fetches CIFAR if it is not there; torchvision compares its checksum.
        seed: seed of the drawing of ``characters``.
        cache_dir: folder in which the drawn characters are kept for `load_array`; None: they are not kept.
        needs_test: False accepts an image folder that has only ``train/``.

    Raises:
        UsageError: there is no data root where one is needed, or the source cannot be fetched.
        BadPictures: see `check_listing`.
        DataError: the data are missing, or have another layout than expected.
    """
    if download and source not in _CIFAR:
        raise UsageError(f"split {source} --download: only {' and '.join(_CIFAR)} can be fetched")
    if source == "characters":
        pictures, labels, num_train = draw_characters(seed)
        if cache_dir is not None:
            keep_characters(pictures, cache_dir)
        return _make_array_manifest(source, None, CLASS_NAMES, pictures, labels, num_train)
    if source == "digits":
        return _make_array_manifest(source, None, tuple("0123456789"), *load_embedded_digits())
    if root is None:
        raise UsageError(f"split {source}: needs --data-root DIR, the folder that holds the data")
    root = root.expanduser().resolve()
    if download:
        _open_cifar(source, root, train=True, download=True)
    if not root.is_dir():
        raise DataError(f"{root}: not a folder; expected {_describe_layout(source)} in it")
    if not os.access(root, os.R_OK | os.X_OK):
        raise DataError(f"{root}: not readable; expected {_describe_layout(source)} in it")
    if source in _CIFAR:
        names = tuple(_open_cifar(source, root, train=False).classes)
        return _make_array_manifest(source, root, names, *read_cifar(source, root))
    listing = list_folder(root, needs_test=needs_test)
    return check_listing(listing, checks)


def scan_listed(
    source: str,
    place: str,
    root: Path,
    columns: Mapping[str, str],
    label_key: str | None,
    checks: Checks,
    *,
    labelled: bool = True,
) -> ListedSource:
    """List and check the pictures of a table or of shards.

    Args:
        source: ``table`` or ``webdataset``.
        place: the table, or a pattern or folder of shards.
        root: folder that paths or shards are below.
        columns, labelled: see `list_table`.
        label_key: see `list_shards`.
        checks: how each picture is checked.

    Raises:
        UsageError, DataError: see `list_table`, `list_shards` and `check_listing`.
    """
    if source == "table":
        listing = list_table(Path(place), root, columns, labelled=labelled)
    else:
        listing = list_shards(place, root, label_key, checks.progress, labelled=labelled)
    return check_listing(listing.in_order(), checks)


def count_source(source: Source, root: Path | None) -> SourceSize:
    """Count classes and pictures of a source, before any are held out; no picture is opened.

    Args:
        source: see `read_source`.
        root: data folder; only an image folder needs one.

    Raises:
        UsageError: there is no data root for an image folder.
        DataError: the image folder has another layout than expected.
    """
    if source == "characters":
        classes = len(CLASS_NAMES)
        return SourceSize(classes, TRAIN_PER_CLASS * classes, TEST_PER_CLASS * classes)
    if source == "digits":
        _, labels, num_train = load_embedded_digits()
        return SourceSize(len(set(labels.tolist())), num_train, len(labels) - num_train)
    if source in CIFAR_SIZES:
        return CIFAR_SIZES[source]
    if root is None:
        raise UsageError(f"{source}: needs --data-root DIR, the folder that holds the data")
    listed = list_folder(root.expanduser().resolve(), needs_test=False)
    parts = Counter(listed.column("part"))
    return SourceSize(len(listed.class_names), parts[TRAIN], parts[TEST])


@lru_cache(maxsize=1)
def load_embedded_digits() -> tuple[NDArray[np.uint8], NDArray[np.int32], int]:
    """Load the embedded digits as colour pictures, training part first; returns as `read_cifar`."""
    levels, labels = read_digits()
    grey = np.rint(levels * (255 / 16)).astype(np.uint8)
    keys = random_keys(_DIGITS_SEED, 0, np.arange(len(labels)), 0)
    is_train = np.zeros(len(labels), dtype=np.bool_)
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label)
        shuffled = rows[np.argsort(keys[rows])]
        is_train[shuffled[: len(rows) // 2]] = True
    training_first = np.concatenate([np.flatnonzero(is_train), np.flatnonzero(~is_train)])
    pictures = np.repeat(grey[training_first][..., None], 3, axis=-1)
    return pictures, labels[training_first], int(is_train.sum())


@lru_cache(maxsize=1)
def read_cifar(source: str, root: Path) -> tuple[NDArray[np.uint8], NDArray[np.int32], int]:
    """Read all pictures of CIFAR, training part first; the last result is kept in memory.

    Returns:
        (M, H, W, 3) uint8 pictures, (M,) int32 labels in the source's order, and the number of training rows.

    Raises:
        DataError: the files are missing, or are not those of torchvision.
    """
    parts = [_open_cifar(source, root, train=train) for train in (True, False)]
    pictures = np.concatenate([part.data for part in parts])
    labels = np.concatenate([part.targets for part in parts]).astype(np.int32)
    return pictures, labels, len(parts[0].targets)


def load_array(manifest: Manifest, *, seed: int, cache_dir: Path) -> NDArray[np.uint8]:
    """Load the (M, H, W, 3) uint8 pictures of a source that is one array.

    Args:
        manifest: manifest of such a source.
        seed, cache_dir: the arguments of `read_source` when the manifest was made.

    Raises:
        DataError: the pictures have changed since the manifest was made, or are missing.
        StorageError: ``cache_dir`` cannot be read or written.
    """
    if manifest.source == "characters":
        return load_characters(manifest.content, seed, cache_dir)
    root = manifest.root
    pictures, _, _ = load_embedded_digits() if root is None else read_cifar(manifest.source, root)
    if content_digest(pictures) != manifest.content:
        raise DataError(
            f"{manifest.source} in {root}: changed since split; restore it, or run split --overwrite"
        )
    return pictures


def _make_array_manifest(
    source: Source,
    root: Path | None,
    class_names: tuple[str, ...],
    pictures: NDArray[np.uint8],
    labels: NDArray[np.int32],
    num_train: int,
) -> ListedSource:
    """Make the manifest of an array of pictures, whose first ``num_train`` rows are the training part."""
    parts = np.full(len(labels), TRAIN, dtype=np.uint8)
    parts[num_train:] = TEST
    manifest = Manifest(
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
    return ListedSource(manifest, [])


def _open_cifar(source: str, root: Path, *, train: bool, download: bool = False) -> Any:
    """Open one part of CIFAR as torchvision's dataset, and fetch it first if asked; DataError if missing."""
    from torchvision import datasets

    name, folder = _CIFAR[source]
    try:
        with warnings.catch_warnings():
            # numpy warns, since the files are pickles of an old version.
            warnings.simplefilter("ignore")
            return getattr(datasets, name)(str(root), train=train, download=download)
    except (RuntimeError, OSError) as error:
        raise DataError(
            f"{root / folder}: not there or not the files that torchvision keeps; "
            f"unpack them there, or let split {source} --download fetch them"
        ) from error


def _describe_layout(source: str) -> str:
    """Say in a message what the data folder of a source should hold."""
    if source == "imagefolder":
        return EXPECTED_LAYOUT
    return f"{_CIFAR[source][1]}/, as torchvision keeps it"
