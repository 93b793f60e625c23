"""Searches for DALI's fastest settings here: threads, depth, and on a GPU the hardware decoder's load."""

from __future__ import annotations

import itertools
import statistics
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import torch
from pydantic import Field

from mptctl.bench.hardware_decoder import WHOLE, HardwareDecoder, Region, ask_decoder, decoder_use
from mptctl.bench.runners import LoaderRunner, Say, our_stream
from mptctl.data.loading.part import LoadPlan
from mptctl.data.picture_structure import START_OF_JPEG
from mptctl.data.plan import EpochPlan
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
# Settings that are measured again, and pictures that the hardware decoder is asked about.
_FINALISTS, _ASKED = 3, 64


@dataclass(frozen=True)
class Setting:
    """Settings of DALI that a sweep tries.

    Attributes:
        batch_size: pictures in a batch.
        threads: threads of the pipeline.
        prefetch: batches that are prepared ahead.
        load: part of the JPEGs for the hardware decoder; None on a CPU.
        fancy: whether colours are interpolated as libjpeg does it.
    """

    batch_size: int
    threads: int
    prefetch: int
    load: float | None
    fancy: bool = True


class SweepRow(Model):
    """Speed of DALI with some settings."""

    batch_size: int = Field(description="pictures in a batch")
    threads: int = Field(description="data.threads")
    prefetch: int = Field(description="data.prefetch")
    hw_decoder_load: float | None = Field(description="data.hw_decoder_load; null on a CPU")
    fancy_upsampling: bool = Field(description="false only to measure the price of equal colours")
    images_per_s: float | None = Field(None, description="median over the runs; null where it failed")
    runs: list[float] = Field([], description="images/s of each run; the fastest settings have several")
    decoder_percent: int | None = Field(
        None, description="how busy the JPEG decoder was at the end of a run, by NVML; null where not known"
    )
    problem: str | None = Field(None, description="why it failed, in one line; null where it did not")

    def describe(self) -> str:
        """Describe the settings and their speed in one line."""
        load = "" if self.hw_decoder_load is None else f", hw_decoder_load {self.hw_decoder_load:g}"
        colours = "" if self.fancy_upsampling else ", without fancy upsampling"
        busy = "" if self.decoder_percent is None else f", decoder {self.decoder_percent} % busy"
        speed = "failed: " if self.images_per_s is None else f"{self.images_per_s:,.0f} images/s"
        return (
            f"batch {self.batch_size}, {self.threads} threads, prefetch {self.prefetch}{load}{colours}: "
            f"{speed}{self.problem or ''}{busy}"
        )


class LoaderSweep(Model):
    """Speeds of DALI with many settings, and the fastest of them."""

    rows: list[SweepRow] = Field(description="one row for each setting, in the order of measuring")
    decoder: HardwareDecoder | None = Field(description="the GPU's hardware decoder; null on a CPU")
    hardware: float | None = Field(
        description="images/s of the hardware decoder alone, with the fastest batch; null: not known"
    )
    others: float | None = Field(
        description="images/s without the hardware decoder, with the fastest batch; null: not known"
    )
    settings: dict[str, float] = Field(description="the fastest settings of data.*; empty: all failed")
    verdict: str = Field(description="what it means, in one line")


def sweep_dali(
    recipe: Recipe,
    split: Split,
    device: torch.device,
    scratch: Path,
    repeats: int,
    seconds: float,
    say: Say,
    tell: Callable[[SweepRow], None] = lambda row: None,
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
        tell: given each row at once, and again when it has more runs.
    """
    sweep = Sweep(partial(_time, recipe, split, device, scratch, seconds), say, tell)
    decoder = None
    if device.type == "cuda":
        decoder = ask_decoder(_choose_pictures(recipe, split))
        say(decoder.describe())
        sweep.try_loads()
    else:
        sweep.try_threads(recipe.optim.batch_size)
    sweep.repeat_fastest(repeats)
    return sweep.conclude(decoder)


def _time(
    recipe: Recipe, split: Split, device: torch.device, scratch: Path, seconds: float, setting: Setting
) -> float:
    """Start DALI's loader, run it for some seconds, stop it, and return images a second."""
    changes = {"loader": "dali", "threads": setting.threads, "prefetch": setting.prefetch}
    loads = {} if setting.load is None else {"hw_decoder_load": setting.load}
    data = recipe.data.model_copy(update=changes | loads)
    plan = LoadPlan(split, data, "train", setting.batch_size, 0, True, device, fancy_upsampling=setting.fancy)
    runner = LoaderRunner("dali", our_stream(plan, scratch), ahead=setting.prefetch)
    try:
        return runner.run(seconds, device)
    finally:
        runner.stop()


def _choose_pictures(recipe: Recipe, split: Split) -> list[tuple[bytes, Region]]:
    """Return the bytes of some JPEGs of a split, and the region of each that a training decodes first."""
    manifest = split.manifest
    rows = np.arange(min(_ASKED, len(manifest.heights)))
    views = EpochPlan(0, recipe.data).views(0, rows, manifest.heights[rows], manifest.widths[rows])
    crops = np.stack([views.top, views.left, views.height, views.width], axis=1)
    if recipe.data.augment != "random-resized-crop":  # crops of whole pictures, after resizing
        crops[:] = WHOLE
    chosen = [
        (manifest.read(row), Region(*crop)) for row, crop in zip(rows.tolist(), crops.tolist(), strict=True)
    ]
    return [(picture, region) for picture, region in chosen if picture.startswith(START_OF_JPEG)]


class Sweep:
    """The rows of a sweep so far.

    Args:
        time_setting: returns the images/s of one run with some settings; what it raises fails their row.
        say: told each speed.
        tell: given each row at once, and again when it has more runs.
    """

    def __init__(
        self, time_setting: Callable[[Setting], float], say: Say, tell: Callable[[SweepRow], None]
    ) -> None:
        self._time, self._say, self._tell = time_setting, say, tell
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
            others, hardware = self._run(first), self._run(replace(first, load=1.0))
            shares = [round(hardware / (hardware + others), 3)] if hardware and others else []
            for load in (*shares, *_LOADS):
                self._run(replace(first, load=load))
        best = self._fastest(1)
        for setting in best:
            for other in dict.fromkeys((setting.load, 1.0, 0.0)):
                self._run(replace(setting, load=other, fancy=False))
            for threads in (cores // 2, cores + cores // 2):
                self._run(replace(setting, threads=max(1, threads)))
            self._run(replace(setting, prefetch=_PREFETCHES[1]))

    def repeat_fastest(self, repeats: int) -> None:
        """Measure the fastest settings again, in turns, until each has ``repeats`` runs."""
        fastest = self._fastest(_FINALISTS)
        for _ in range(repeats - 1):
            for setting in fastest:
                self._run(setting)

    def conclude(self, decoder: HardwareDecoder | None) -> LoaderSweep:
        """Return all rows, and what they mean."""
        best = self._fastest(1)
        hardware: float | None = None
        others: float | None = None
        settings: dict[str, float] = {}
        if not best:
            problems = {row.problem for row in self._rows.values()}
            verdict = f"DALI could not be measured: {'; '.join(sorted(map(str, problems)))}"
        else:
            (setting,) = best
            settings = {"threads": setting.threads, "prefetch": setting.prefetch}
            verdict = f"fastest with {self._rows[setting].describe()}"
            if setting.load is not None:
                settings["hw_decoder_load"] = setting.load
                alone = replace(setting, threads=usable_cores(), prefetch=_PREFETCHES[0])
                others, hardware = (self._speed(replace(alone, load=load)) for load in (0.0, 1.0))
                if others and hardware:
                    share = (self._speed(setting) or 0.0) / (hardware + others)
                    verdict += (
                        f", {share:.0%} of the sum of the hardware decoder alone ({hardware:,.0f}) and "
                        f"without it ({others:,.0f})"
                    )
                plain, fancy = (self._speed(replace(alone, fancy=value)) for value in (False, True))
                if plain and fancy:
                    verdict += f"; without fancy upsampling {plain / fancy:.2f} times as fast"
        self._say(verdict)
        return LoaderSweep(
            rows=list(self._rows.values()),
            decoder=decoder,
            hardware=hardware,
            others=others,
            settings=settings,
            verdict=verdict,
        )

    def _speed(self, setting: Setting) -> float | None:
        """Return the images/s of a setting; None where it was not measured."""
        return self._rows[setting].images_per_s if setting in self._rows else None

    def _fastest(self, count: int) -> list[Setting]:
        """Return the fastest settings that a training may use, the fastest first."""
        rates = {setting: self._speed(setting) for setting in self._rows if setting.fancy}
        measured = {setting: rate for setting, rate in rates.items() if rate is not None}
        return sorted(measured, key=lambda setting: -measured[setting])[:count]

    def _run(self, setting: Setting) -> float | None:
        """Run DALI with some settings once, and record it; return the row's images/s, None if it failed."""
        row = self._rows.get(
            setting,
            SweepRow(
                batch_size=setting.batch_size,
                threads=setting.threads,
                prefetch=setting.prefetch,
                hw_decoder_load=setting.load,
                fancy_upsampling=setting.fancy,
            ),
        )
        found: dict[str, object] = {}
        try:
            runs = [*row.runs, round(self._time(setting), 1)]
            found = {"runs": runs, "images_per_s": round(statistics.median(runs), 1)}
            found["decoder_percent"] = None if setting.load is None else decoder_use()
        except Exception as error:  # of any kind: a setting that fails ends its own row alone
            found["problem"] = first_line(error)[:200]
        row = self._rows[setting] = row.model_copy(update=found)
        self._say(f"sweep: {row.describe()}")
        self._tell(row)
        return row.images_per_s
