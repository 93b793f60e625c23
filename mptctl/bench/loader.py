"""Times loaders of pictures: ours, those of other libraries, and the model's own training step."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from pydantic import Field

from mptctl.bench.loader_parts import LoaderParts, PartsRunner
from mptctl.bench.runners import (
    DATALOADERS,
    LEAST_BATCHES,
    LEAST_RESIDENT_BATCHES,
    MEMORY_DATALOADERS,
    ROWS,
    LoaderRunner,
    Say,
    make_runners,
)
from mptctl.bench.sources import find_pictures, repeat_pictures, write_sources
from mptctl.bench.sweep import LoaderSweep, sweep_dali
from mptctl.data.loading.choose import LOADERS
from mptctl.data.manifest import TRAIN
from mptctl.files import Model, scratch_folder
from mptctl.machine.facts import Machine, this_machine
from mptctl.names import Source
from mptctl.recipe import Recipe

IN_MEMORY = {kind.name for kind in LOADERS if kind.in_memory}


class LoaderRow(Model):
    """Speed of one way to get pictures."""

    name: str = Field(description="which loader; synthetic is the model's own training step")
    source: Source | None = Field(description="how pictures lie; null for synthetic")
    images_per_s: float = Field(description="median over the runs")
    runs: list[float] = Field(description="images/s of each run; runs of all rows take turns")
    workers: int | None = Field(description="threads or processes; null where there are none to set")
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
    verdict: str = Field(description="what it means, in one line")
    fastest: str | None = Field(
        None,
        description="the fastest of our loaders that does the work of the others; null where none was "
        "measured",
    )
    sweep: LoaderSweep | None = Field(description="with --sweep: the speed of DALI with many settings")
    parts: LoaderParts | None = Field(
        None, description="what bounds the threaded loader; null where that was not measured"
    )


def bench_loader(  # noqa: PLR0913  # one for each flag of `bench loader`
    recipe: Recipe,
    *,
    data_root: Path | None = None,
    sources: tuple[Source, ...] = ("imagefolder",),
    rows: tuple[str, ...] = ROWS,
    repeats: int = 5,
    seconds: float = 5.0,
    device: torch.device | None = None,
    sweep: bool = False,
    say: Say = lambda line: None,
) -> LoaderBench:
    """Measure the speed of loaders in turns.

    Args:
        recipe: picture size, augmentation, batch size, loader settings and model.
        data_root: folder with ``train/CLASS/*``, or a tar file of one; None: generated JPEGs of 500 x 375
            pixels.
        sources: forms in which our loaders read the same pictures; some of `SOURCES`.
        rows: some of `ROWS`.
        repeats: number of runs of each row.
        seconds: length of a run.
        device: where batches go; None: the first GPU, or the CPU without one.
        sweep: also search for DALI's fastest settings on this machine.
        say: told what is under way.

    Raises:
        DataError: no pictures in the folder, or bad ones.
    """
    device = device or torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    machine = this_machine()
    with scratch_folder() as scratch:
        folder = find_pictures(data_root, scratch / "data", say)
        say("checking the files' headers")
        manifests = write_sources(folder, sources, scratch)
        manifest, batch = manifests["imagefolder"], recipe.optim.batch_size
        least, least_in_memory = LEAST_BATCHES * batch, LEAST_RESIDENT_BATCHES * batch
        splits = {name: repeat_pictures(each, least, scratch) for name, each in manifests.items()}
        short = {name: repeat_pictures(each, least_in_memory, scratch) for name, each in manifests.items()}
        runners, skipped = make_runners(recipe, splits, short, sources, rows, device, scratch, say)
        parts = PartsRunner(manifest, recipe.data, batch, device) if "threaded" in rows else None
        try:
            measured = _run_in_turns(runners, parts, repeats, seconds, device, say, len(sources) > 1)
            swept = (
                sweep_dali(recipe, splits["imagefolder"], device, scratch, repeats, seconds, say)
                if sweep
                else None
            )
        finally:
            for runner in runners:
                runner.stop()
    results = [
        LoaderRow(
            name=runner.name,
            source=runner.source,
            images_per_s=round(statistics.median(runs), 1),
            runs=runs,
            workers=runner.workers,
            augment=runner.augment,
        )
        for runner, runs in zip(runners, measured, strict=True)
    ]
    # A loader with several sources has the rate of the first one: later rows are overwritten by earlier ones.
    rates = {row.name: row.images_per_s for row in reversed(results)}
    same_work = recipe.data.augment != "random-resized-crop"
    best = choose_fastest(rates, same_work)
    return LoaderBench(
        machine=machine,
        data="generated" if data_root is None else str(data_root),
        pictures=int(np.count_nonzero(manifest.parts == TRAIN)),
        image_size=recipe.data.image_size,
        batch_size=recipe.optim.batch_size,
        rows=results,
        skipped=skipped,
        verdict=write_verdict(rates, same_work)
        + compare_sources([row for row in results if row.name == best]),
        fastest=best,
        sweep=swept,
        parts=None if parts is None else parts.medians(),
    )


def _run_in_turns(
    runners: list[LoaderRunner],
    parts: PartsRunner | None,
    repeats: int,
    seconds: float,
    device: torch.device,
    say: Say,
    says_source: bool,
) -> list[list[float]]:
    """Run every runner, and the parts, once in each turn; return images/s of each runner's runs."""
    measured: list[list[float]] = [[] for _ in runners]
    for turn in range(repeats):
        for runner, runs in zip(runners, measured, strict=True):
            runs.append(round(runner.run(seconds, device), 1))
            of_source = f" of {runner.source}" if says_source and runner.source else ""
            say(f"run {turn + 1} of {repeats}: {runner.name}{of_source} {runs[-1]:,.0f} images/s")
        if parts is not None:
            parts.run(seconds)
    return measured


def choose_fastest(rates: dict[str, float], same_work: bool) -> str | None:
    """Return the name of our fastest loader; None if none of ours was measured.

    Args:
        rates: images/s by name.
        same_work: whether loaders with pictures in memory augment as the others do; if not, they do not
            count.
    """
    names = [kind.name for kind in LOADERS if same_work or not kind.in_memory]
    ours = [name for name in rates if name in names]
    return max(ours, key=lambda name: rates[name]) if ours else None


def write_verdict(rates: dict[str, float], same_work: bool) -> str:
    """Compare our fastest loader with our others, the fastest DataLoader and the model's step, in one line.

    Args:
        rates: images/s by name.
        same_work: as for `choose_fastest`.
    """
    best = choose_fastest(rates, same_work)
    if best is None:
        return "no loader of ours was measured"
    # A loader with pictures in memory is compared with DataLoaders that have so too, if they were measured.
    in_memory = best in IN_MEMORY and any(name in MEMORY_DATALOADERS for name in rates)
    rivals = [name for name in rates if name in (MEMORY_DATALOADERS if in_memory else DATALOADERS)]
    line = f"{best} brings {rates[best]:,.0f} images/s"
    compared = [
        kind.name for kind in LOADERS if kind.name in rates and kind.name != best and not kind.in_memory
    ]
    if rivals:
        compared.append(max(rivals, key=lambda name: rates[name]))
    if compared:
        line += ", " + " and ".join(f"{rates[best] / rates[name]:.2f} times {name}" for name in compared)
    need = rates.get("synthetic")
    if need is None:
        return line
    bottleneck = "data are no bottleneck" if rates[best] >= need else "data are the bottleneck"
    return f"{line}; the model takes {need:,.{0 if need >= 10 else 1}f}: {bottleneck}"


def compare_sources(rows: list[LoaderRow]) -> str:
    """Write how fast one loader is from each source, as a median of each turn's ratio to the first source.

    Args:
        rows: of one loader, one for each source.

    Returns:
        The end of a sentence; empty with fewer than two rows.
    """
    ratios = {
        str(row.source): statistics.median(
            rate / first for rate, first in zip(row.runs, rows[0].runs, strict=True)
        )
        for row in rows[1:]
    }
    speeds = ", ".join(f"from {source} {ratio:.2f}" for source, ratio in ratios.items())
    return f"; {speeds} times as fast as from {rows[0].source}" if speeds else ""
