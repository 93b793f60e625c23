"""Writes the pictures of the loader bench as folders of classes, as a table and as shards."""

from __future__ import annotations

import math
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image

from mptctl.bench.runners import Say
from mptctl.data.listing.listing import Checks
from mptctl.data.manifest import TRAIN, Manifest
from mptctl.data.packing.pack import QUALITY, pack_pictures
from mptctl.data.packing.records import PackRequest
from mptctl.data.sources import read_source, scan_listed
from mptctl.data.split import Split, build_split
from mptctl.data.split_file import SplitRequest
from mptctl.errors import DataError, first_line
from mptctl.names import Source, tell_nobody

# In the order in which they are measured.
SOURCES: tuple[Source, ...] = ("imagefolder", "table", "webdataset")
# Most pictures if several sources are measured; at ImageNet's size their shards take 220 MB.
MOST_COPIED = 2_000
# Number of generated pictures.
_GENERATED = 200


def find_pictures(root: Path | None, folder: Path, say: Say) -> Path:
    """Return the folder of the pictures; those of a tar file, and generated ones, are first written.

    Args:
        root: folder with ``train/CLASS/*``, a tar file of one, or None: pictures are generated.
        folder: where pictures are written; does not exist yet.
        say: told what is under way.

    Raises:
        DataError: a file that is no tar file.
    """
    if root is None:
        say("generating JPEGs of 500 x 375")
        generate_pictures(folder)
        return folder
    if not root.is_file():
        return root
    say(f"unpacking {root.name}")
    try:
        with tarfile.open(root) as archive:
            archive.extractall(folder, filter="data")
    except tarfile.TarError as error:
        raise DataError(
            f"{root}: {first_line(error)}; give a folder with train/CLASS/*, or a tar of one"
        ) from error
    return next((train.parent for train in folder.rglob("train")), folder)


def write_sources(root: Path, sources: tuple[Source, ...], scratch: Path) -> dict[Source, Manifest]:
    """List the training pictures of a folder, and write them as the other sources that are to be measured.

    Args:
        root: folder with ``train/CLASS/*``.
        sources: some of `SOURCES`. If any but ``imagefolder`` is among them, all sources have the same
            pictures, at most `MOST_COPIED` and of one class.
        scratch: folder for links to the pictures, the table and the shards.

    Returns:
        The manifest of ``imagefolder`` and of each other source that is asked for.

    Raises:
        DataError: the folder has no pictures, or bad ones.
    """
    manifest = read_source("imagefolder", root, needs_test=False).manifest
    manifests: dict[Source, Manifest] = {"imagefolder": manifest}
    if set(sources) <= {"imagefolder"}:
        return manifests
    rows = np.flatnonzero(manifest.parts == TRAIN)
    rows = rows[np.linspace(0, len(rows) - 1, min(len(rows), MOST_COPIED)).astype(np.int64)]
    few = scratch / "few"
    (few / "train" / "all").mkdir(parents=True)
    for row in rows.tolist():
        file = Path(manifest.file(row))
        (few / "train" / "all" / f"{row}{file.suffix.lower()}").symlink_to(file)
    manifests["imagefolder"] = read_source("imagefolder", few, needs_test=False).manifest
    places: dict[Source, Path] = {}
    if "table" in sources:
        table, folder = scratch / "pictures.csv", manifests["imagefolder"]
        lines = [f"{folder.relative_path(row)},all\n" for row in range(len(rows))]
        table.write_text("".join(["path,label\n", *lines]))
        places["table"] = table
    if "webdataset" in sources:
        shards = scratch / "shards"
        pack_pictures(PackRequest(source=str(few), to="shards", short_side=None, quality=QUALITY), shards)
        places["webdataset"] = shards
    checks: Checks = {"verify": "header", "on_bad": "fail", "progress": tell_nobody}
    for source, place in places.items():
        listed = scan_listed(source, str(place), few if source == "table" else place, {}, None, checks)
        assert listed is not None
        manifests[source] = listed.manifest
    return manifests


def repeat_pictures(manifest: Manifest, least: int, scratch: Path) -> Split:
    """Make a split that lists every training picture so often that an epoch has ``least`` pictures or more.

    Args:
        manifest: of any source.
        least: number of pictures of an epoch.
        scratch: folder that the split names as its run root.
    """
    rows = np.flatnonzero(manifest.parts == TRAIN)
    rows = np.tile(rows, math.ceil(least / len(rows)))
    longer = manifest.take(rows)
    request = SplitRequest(
        source=manifest.source, data_root=str(manifest.root), old_fraction=1.0, old_names=None, order="given",
        seed=0, val_fraction=0.0,
    )  # fmt: skip
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
