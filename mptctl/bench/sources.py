"""Finds the pictures of the loader bench, or generates them, and makes epochs of them long enough."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
from PIL import Image

from mptctl.bench.runners import Say
from mptctl.data.manifest import TRAIN, Manifest
from mptctl.data.split import Split, build_split
from mptctl.data.split_file import SplitRequest

# Number of generated pictures.
_GENERATED = 200


def find_pictures(root: Path | None, folder: Path, say: Say) -> Path:
    """Return the folder of the pictures; generated ones are first written.

    Args:
        root: folder with ``train/CLASS/*``, or None: pictures are generated.
        folder: where pictures are written; does not exist yet.
        say: called with what is under way.
    """
    if root is not None:
        return root
    say("generating JPEGs of 500 x 375")
    generate_pictures(folder)
    return folder


def repeat_pictures(manifest: Manifest, least: int, scratch: Path) -> Split:
    """Make a split that lists every training picture so often that an epoch has ``least`` pictures or more.

    Args:
        manifest: of a folder.
        least: number of pictures of an epoch.
        scratch: folder that the split names as its run root.
    """
    rows = np.flatnonzero(manifest.parts == TRAIN)
    rows = np.tile(rows, math.ceil(least / len(rows)))
    longer = manifest.take(rows)
    request = SplitRequest(source=manifest.source, data_root=str(manifest.root), old_fraction=1.0)
    return build_split(longer, request, scratch)


def generate_pictures(root: Path) -> None:
    """Write JPEGs of about ImageNet's usual size and detail to ``train/generated`` below a folder."""
    rng = np.random.default_rng(0)
    (root / "train" / "generated").mkdir(parents=True)
    for number in range(_GENERATED):
        coarse = Image.fromarray(rng.integers(0, 256, (47, 63, 3), dtype=np.uint8)).resize((500, 375))
        grain = rng.normal(0, 12, (375, 500, 3))
        picture = np.clip(np.asarray(coarse) + grain, 0, 255).astype(np.uint8)
        Image.fromarray(picture).save(root / "train" / "generated" / f"{number:04d}.jpg", quality=90)
