"""Times loaders of pictures: ours, a torch DataLoader, and the model's own training step."""

from __future__ import annotations

import math
import statistics
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from PIL import Image
from pydantic import Field

from mptctl.bench.runners import LEAST_BATCHES, LEAST_RESIDENT_BATCHES, ROWS, LoaderRunner, Say, make_runners
from mptctl.data.manifest import TRAIN, Manifest
from mptctl.data.sources import read_source
from mptctl.data.split import Split, build_split
from mptctl.data.split_file import SplitRequest
from mptctl.files import Model, scratch_folder
from mptctl.machine.facts import Machine, this_machine
from mptctl.recipe import Recipe

# Number of generated pictures.
_GENERATED = 200


class LoaderRow(Model):
    """Speed of one way to get pictures."""

    name: str = Field(description="which loader; synthetic is the model's own training step")
    images_per_s: float = Field(description="median over the runs")
    runs: list[float] = Field(description="images/s of each run; runs of all rows take turns")
    workers: int | None = Field(description="threads or processes; null if the number cannot be set")
    augment: str | None = Field(description="training augmentation; null for synthetic")


class LoaderBench(Model):
    """The object that ``mptctl bench loader --json`` prints."""

    bench: Literal["loader"] = Field("loader", description="which bench")
    machine: Machine = Field(description="where it was measured")
    data: str = Field(description="folder of the pictures, or generated")
    pictures: int = Field(description="picture files")
    image_size: int = Field(description="side of the square that the model sees")
    batch_size: int = Field(description="pictures in a batch")
    rows: list[LoaderRow] = Field(description="one row a loader")
    skipped: dict[str, str] = Field(description="rows that cannot be measured here, and why")


def bench_loader(  # one for each flag of `bench loader`
    recipe: Recipe,
    *,
    data_root: Path | None = None,
    rows: tuple[str, ...] = ROWS,
    repeats: int = 5,
    seconds: float = 5.0,
    device: torch.device | None = None,
    say: Say = lambda line: None,
) -> LoaderBench:
    """Measure the speed of loaders in turns.

    Args:
        recipe: picture size, augmentation, batch size, loader settings and model.
        data_root: folder with ``train/CLASS/*``; None: generated JPEGs of 500 x 375 pixels.
        rows: some of `ROWS`.
        repeats: number of runs of each row.
        seconds: length of a run.
        device: where batches go; None: the first GPU, or the CPU without one.
        say: called with what is under way.

    Raises:
        DataError: no pictures in the folder, or bad ones.
    """
    device = device or torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    machine = this_machine()
    with scratch_folder() as scratch:
        folder = data_root or scratch / "data"
        if data_root is None:
            say("generating JPEGs of 500 x 375")
            generate_pictures(folder)
        say("checking the files' headers")
        manifest = read_source("imagefolder", folder, needs_test=False).manifest
        batch = recipe.optim.batch_size
        split = repeat_pictures(manifest, LEAST_BATCHES * batch, scratch)
        short = repeat_pictures(manifest, LEAST_RESIDENT_BATCHES * batch, scratch)
        runners, skipped = make_runners(recipe, split, short, rows, device, scratch, say)
        try:
            measured = _run_in_turns(runners, repeats, seconds, device, say)
        finally:
            for runner in runners:
                runner.stop()
    results = [
        LoaderRow(
            name=runner.name,
            images_per_s=round(statistics.median(runs), 1),
            runs=runs,
            workers=runner.workers,
            augment=runner.augment,
        )
        for runner, runs in zip(runners, measured, strict=True)
    ]
    return LoaderBench(
        machine=machine,
        data="generated" if data_root is None else str(data_root),
        pictures=int(np.count_nonzero(manifest.parts == TRAIN)),
        image_size=recipe.data.image_size,
        batch_size=recipe.optim.batch_size,
        rows=results,
        skipped=skipped,
    )


def _run_in_turns(
    runners: list[LoaderRunner],
    repeats: int,
    seconds: float,
    device: torch.device,
    say: Say,
) -> list[list[float]]:
    """Run every runner once in each turn; return images/s of each runner's runs."""
    measured: list[list[float]] = [[] for _ in runners]
    for turn in range(repeats):
        for runner, runs in zip(runners, measured, strict=True):
            runs.append(round(runner.run(seconds, device), 1))
            say(f"run {turn + 1} of {repeats}: {runner.name} {runs[-1]:,.0f} images/s")
    return measured


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
