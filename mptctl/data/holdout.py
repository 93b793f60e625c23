"""The validation part: which training pictures are held out, and whether every class keeps some."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from mptctl.data.manifest import BAD, TRAIN, VAL, Manifest
from mptctl.data.plan import VALIDATION_FIELD, random_keys
from mptctl.errors import DataError


def hold_out(manifest: Manifest, val_fraction: float, seed: int) -> NDArray[np.uint8]:
    """Move a part of each class's training rows to the validation part.

    Which ones depends on the seed and each row's index alone, so that a bad file that is kept out
    changes at most one other row.

    Args:
        manifest: with parts TRAIN, TEST and BAD, and perhaps VAL, which stays.
        val_fraction: part of each class's training rows, from 0 to below 1; rounded to the nearest row.
        seed: of the draw.

    Returns:
        (M,) part of each row.
    """
    parts = manifest.parts.copy()
    rows = np.flatnonzero(parts == TRAIN)
    keys = random_keys(seed, 0, rows, VALIDATION_FIELD)
    ordered = rows[np.lexsort((keys, manifest.labels[rows]))]
    labels = manifest.labels[ordered]
    starts = np.searchsorted(labels, labels)
    sizes = np.bincount(labels, minlength=len(manifest.class_names))[labels]
    held = np.floor(sizes * val_fraction + 0.5)
    parts[ordered[np.arange(len(ordered)) - starts < held]] = VAL
    return parts


def refuse_empty_classes(manifest: Manifest) -> None:
    """Every class needs pictures to train on.

    Raises:
        DataError: a class has no training picture left; the first such class is named.
    """
    seen = np.bincount(manifest.labels[manifest.parts == TRAIN], minlength=len(manifest.class_names))
    empty = [manifest.class_names[i] for i in np.flatnonzero(seen == 0)]
    if empty:
        kept_out = int(np.count_nonzero(manifest.parts == BAD))
        raise DataError(
            f"no training picture is left of {len(empty)} classes, {empty[0]} first "
            f"({kept_out} pictures kept out); add pictures or lower --val-fraction"
        )
