"""Searches for DALI's fastest settings here: threads, depth, and on a GPU the hardware decoder's load."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from pydantic import Field

from mptctl.bench.runners import LoaderRunner, Say, our_stream
from mptctl.data.loading.part import LoadPlan
from mptctl.data.split import Split
from mptctl.errors import first_line
from mptctl.files import Model
from mptctl.machine.facts import usable_cores
from mptctl.recipe import Recipe

# On a GPU. Loads 0 and 1, at which one decoder works alone, come first: a third follows from their speeds.
# 408 is the batch of NVIDIA's own test (DALI, qa/TL1_decoder_perf).
_BATCHES = (256, 128, 408)
_LOADS = (0.65, 0.4, 0.2)
_PREFETCHES = (2, 3)
# Settings that are measured again.
_FINALISTS = 3


@dataclass(frozen=True)
class Setting:
    """Settings of DALI that a sweep tries; the fields are those of `SweepRow`."""

    batch_size: int
    threads: int
    prefetch: int
    hw_decoder_load: float | None
    fancy_upsampling: bool = True


class SweepRow(Model):
    """Speed of DALI with some settings."""

    batch_size: int = Field(description="pictures in a batch")
    threads: int = Field(description="data.threads")
    prefetch: int = Field(description="data.prefetch")
    hw_decoder_load: float | None = Field(description="data.hw_decoder_load; null on a CPU")
    fancy_upsampling: bool = Field(description="false only to measure the price of equal colours")
    images_per_s: float | None = Field(None, description="median over the runs; null where it failed")
    runs: list[float] = Field([], description="images/s of each run; the fastest settings have several")
    problem: str | None = Field(None, description="why it failed, in one line; null where it did not")

    def describe(self) -> str:
        """Describe the settings and their speed in one line."""
        load = "" if self.hw_decoder_load is None else f", hw_decoder_load {self.hw_decoder_load:g}"
        colours = "" if self.fancy_upsampling else ", without fancy upsampling"
        speed = "failed: " if self.images_per_s is None else f"{self.images_per_s:,.0f} images/s"
        return (
            f"batch {self.batch_size}, {self.threads} threads, prefetch {self.prefetch}{load}{colours}: "
            f"{speed}{self.problem or ''}"
        )


class LoaderSweep(Model):
    """Speeds of DALI with many settings, and the fastest of them."""

    rows: list[SweepRow] = Field(description="one row for each setting, in the order of measuring")
    settings: dict[str, float] = Field(description="the fastest settings of data.*; empty: all failed")
    verdict: str = Field(description="conclusion, in one line")


def sweep_dali(
    recipe: Recipe,
    split: Split,
    device: torch.device,
    scratch: Path,
    repeats: int,
    seconds: float,
    say: Say,
) -> LoaderSweep:
    """Time DALI with many settings; what fails is a row with its reason, and the rest goes on.

    Args:
        recipe: picture size, augmentation and, on a CPU, batch size.
        split: pictures of a folder.
        device: where batches go.
        scratch: folder for the loader's files.
        repeats: runs of the three fastest settings, in turns; the others have one run.
        seconds: length of a run.
        say: told each speed.
    """
    sweep = Sweep(partial(_time, recipe, split, device, scratch, seconds), say)
    if device.type == "cuda":
        sweep.try_loads()
    else:
        sweep.try_threads(recipe.optim.batch_size)
    sweep.repeat_fastest(repeats)
    return sweep.conclude()


def _time(
    recipe: Recipe, split: Split, device: torch.device, scratch: Path, seconds: float, setting: Setting
) -> float:
    """Start DALI's loader, run it for some seconds, stop it, and return images a second."""
    settings = {"loader": "dali"} | _recipe_keys(setting)
    data = recipe.data.model_copy(update=settings)
    plan = LoadPlan(
        split, data, "train", setting.batch_size, 0, True, device, fancy_upsampling=setting.fancy_upsampling
    )
    runner = LoaderRunner("dali", our_stream(plan, scratch), ahead=setting.prefetch)
    try:
        return runner.run(seconds, device)
    finally:
        runner.stop()


def _recipe_keys(setting: Setting) -> dict[str, Any]:
    """The keys of ``data`` in a recipe with these settings."""
    load = {} if setting.hw_decoder_load is None else {"hw_decoder_load": setting.hw_decoder_load}
    return {"threads": setting.threads, "prefetch": setting.prefetch} | load


class Sweep:
    """The rows of a sweep so far.

    Args:
        time_setting: returns the images/s of one run with some settings; what it raises fails their row.
        say: told each speed.
    """

    def __init__(self, time_setting: Callable[[Setting], float], say: Say) -> None:
        self._time, self._say = time_setting, say
        self._rows: dict[Setting, SweepRow] = {}

    def try_threads(self, batch_size: int) -> None:
        """Try numbers of threads with depths, on a CPU."""
        cores = usable_cores()
        counts = sorted({max(1, cores // 2), cores, cores + cores // 2})
        for threads, prefetch in itertools.product(counts, _PREFETCHES):
            self._run(Setting(batch_size, threads, prefetch, None))

    def try_loads(self) -> None:
        """Try loads of the hardware decoder with several batches, then other colours, threads and depth."""
        cores = usable_cores()
        for batch in _BATCHES:
            first = Setting(batch, cores, _PREFETCHES[0], 0.0)
            others, hardware = self._run(first), self._run(replace(first, hw_decoder_load=1.0))
            shares = [round(hardware / (hardware + others), 3)] if hardware and others else []
            for load in (*shares, *_LOADS):
                self._run(replace(first, hw_decoder_load=load))
        best = self._fastest(1)
        for setting in best:
            for other in dict.fromkeys((setting.hw_decoder_load, 1.0, 0.0)):
                self._run(replace(setting, hw_decoder_load=other, fancy_upsampling=False))
            for threads in (cores // 2, cores + cores // 2):
                self._run(replace(setting, threads=max(1, threads)))
            self._run(replace(setting, prefetch=_PREFETCHES[1]))

    def repeat_fastest(self, repeats: int) -> None:
        """Measure the fastest settings again, in turns, until each has ``repeats`` runs."""
        fastest = self._fastest(_FINALISTS)
        for _ in range(repeats - 1):
            for setting in fastest:
                self._run(setting)

    def conclude(self) -> LoaderSweep:
        """Return all rows, and the fastest settings."""
        rows, best = list(self._rows.values()), self._fastest(1)
        if best:
            verdict = f"fastest with {self._rows[best[0]].describe()}"
        else:
            problems = sorted({str(row.problem) for row in rows})
            verdict = f"DALI could not be measured: {'; '.join(problems)}"
        self._say(verdict)
        return LoaderSweep(rows=rows, settings=_recipe_keys(best[0]) if best else {}, verdict=verdict)

    def _fastest(self, count: int) -> list[Setting]:
        """Return the fastest settings that a training may use, the fastest first."""
        rates = {
            setting: row.images_per_s
            for setting, row in self._rows.items()
            if setting.fancy_upsampling and row.images_per_s is not None
        }
        return sorted(rates, key=lambda setting: -rates[setting])[:count]

    def _run(self, setting: Setting) -> float | None:
        """Run DALI with some settings once, and record it; return the row's images/s, None if it failed."""
        row = self._rows.get(setting) or SweepRow(**asdict(setting))
        try:
            runs = [*row.runs, round(self._time(setting), 1)]
            row = row.model_copy(update={"runs": runs, "images_per_s": round(statistics.median(runs), 1)})
        except Exception as error:  # of any kind: a setting that fails ends its own row alone
            row = row.model_copy(update={"problem": first_line(error)[:200]})
        self._rows[setting] = row
        self._say(f"sweep: {row.describe()}")
        return row.images_per_s
