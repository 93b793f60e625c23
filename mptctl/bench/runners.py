"""The rows of the loader bench: starts the stream of batches of each, and measures its speed."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from torch import Tensor

from mptctl.bench.opponents import Reader, dataloader_stream, why_not_torchcodec
from mptctl.bench.ways_to_train import step_alone
from mptctl.data.loading.base import Loader
from mptctl.data.loading.choose import LOADERS, make_loader
from mptctl.data.loading.part import LoadPlan
from mptctl.data.split import Split
from mptctl.errors import MptctlError
from mptctl.machine.facts import usable_cores
from mptctl.methods.table import build_method
from mptctl.recipe import Recipe
from mptctl.training.estimate import random_batch
from mptctl.training.optimizer.optim import set_learning_rate
from mptctl.training.run import make_random_student

OURS = tuple(kind.name for kind in LOADERS)
DATALOADERS = ("dataloader-torchcodec", "dataloader-pil")
ROWS = (*OURS, *DATALOADERS, "synthetic")
# Least batches of an epoch. Each epoch begins with an empty queue, and short epochs would measure little
# else; an epoch of ImageNet has 10,000 batches.
LEAST_BATCHES = 200
# Fewer for pictures in memory: there is no queue to fill, and each repeated picture takes memory again.
LEAST_RESIDENT_BATCHES = 12
# A stream is warm after both.
_WARM_SECONDS, _WARM_BATCHES = 0.5, 4
_REST_AT_MOST = 10.0  # seconds

Say = Callable[[str], None]
Stream = Iterator[Tensor]


@dataclass
class LoaderRunner:
    """A row of the loader bench.

    Attributes:
        name: of the row.
        start: starts a stream of batches.
        workers: number of threads or processes; None where there is none to set.
        augment: training augmentation; None for the model's own step.
        ahead: number of batches that the stream goes on preparing when nobody takes any.
        stream: the started stream; None before `run`, and after `stop`.
    """

    name: str
    start: Callable[[], Stream]
    workers: int | None = None
    augment: str | None = None
    ahead: int = 0
    stream: Stream | None = None

    def run(self, seconds: float, device: torch.device) -> float:
        """Take batches for some seconds, and return images a second.

        Starts the stream if needed, warms it up before, and sleeps afterwards until its queue is full.
        """
        if self.stream is None:
            self.stream = self.start()
        stream = self.stream
        begin, batches = time.perf_counter(), 0
        while batches < _WARM_BATCHES or time.perf_counter() - begin < _WARM_SECONDS:
            next(stream)
            batches += 1
            if time.perf_counter() - begin > seconds:  # slow streams need no more to be warm
                break
        _wait_for(device)
        begin, images, batches = time.perf_counter(), 0, 0
        while time.perf_counter() - begin < seconds:
            images += len(next(stream))
            batches += 1
        _wait_for(device)
        elapsed = time.perf_counter() - begin
        # While its queue fills, this stream would take cores from the next runner.
        time.sleep(min(_REST_AT_MOST, 1.5 * self.ahead * elapsed / batches))
        return images / elapsed

    def stop(self) -> None:
        """Close the stream, and with it the threads or processes behind it."""
        if isinstance(self.stream, Generator):
            with suppress(MptctlError):
                self.stream.close()
        self.stream = None


def make_runners(
    recipe: Recipe,
    split: Split,
    short_split: Split,
    rows: tuple[str, ...],
    device: torch.device,
    scratch: Path,
    say: Say,
) -> tuple[list[LoaderRunner], dict[str, str]]:
    """Make a runner for each row that can be measured here; DataLoaders get their fastest number of workers.

    Args:
        recipe: picture size, augmentation, batch size, loader settings and model.
        split: pictures, for loaders that read files.
        short_split: the same with shorter epochs, for loaders with pictures in memory.
        rows: some of `ROWS`.
        device: where batches go.
        scratch: folder for decoded pictures.
        say: called with the speed with each number of workers.

    Returns:
        The runners, and by name of each other row the reason why it is left out.
    """
    runners: list[LoaderRunner] = []
    skipped: dict[str, str] = {}
    kinds = {kind.name: kind for kind in LOADERS}
    for name in rows:
        if name == "synthetic":
            runners.append(LoaderRunner(name, partial(_train_endlessly, recipe, device)))
            continue
        if name in kinds:
            kind = kinds[name]
            runner = _our_runner(kind, recipe, short_split if kind.in_memory else split, device, scratch)
        else:
            plan = LoadPlan(split, recipe.data, "train", recipe.optim.batch_size, 0, True, device)
            runner = _best_dataloader(name, plan, say)
        if isinstance(runner, str):
            skipped[name] = runner
        else:
            runners.append(runner)
    return runners, skipped


def _our_runner(
    kind: type[Loader], recipe: Recipe, split: Split, device: torch.device, scratch: Path
) -> LoaderRunner | str:
    """Make the runner of one of our loaders, or return the reason why it cannot be measured here."""
    if device.type not in kind.devices:
        if "cpu" not in kind.devices:
            return "no CUDA device"
        device = torch.device("cpu")
    # Pictures in memory have one size, so they are cropped after padding.
    augment = "pad-crop" if kind.in_memory else recipe.data.augment
    data = recipe.data.model_copy(update={"loader": kind.recipe_name, "augment": augment})
    plan = LoadPlan(split, data, "train", recipe.optim.batch_size, 0, True, device)
    if why_not := kind.why_not(plan, is_asked=True):
        return why_not
    start = our_stream(plan, scratch)
    if kind.in_memory:
        return LoaderRunner(kind.name, start, None, augment)
    threads = data.threads or usable_cores()
    return LoaderRunner(kind.name, start, threads, augment, data.prefetch)


def _best_dataloader(name: str, plan: LoadPlan, say: Say) -> LoaderRunner | str:
    """Time a DataLoader with 1, 2, 4 ... workers, and return the fastest; on one core time nothing.

    Return the reason where its reader cannot decode the pictures.

    Args:
        name: one of `DATALOADERS`.
        plan: gives the pictures, and how they are augmented.
        say: called with the speed with each number of workers.
    """
    reader: Reader = "pil" if name.endswith("pil") else "torchcodec"
    if reader == "torchcodec" and (why_not := why_not_torchcodec(plan)):
        return why_not

    def make_runner(workers: int) -> LoaderRunner:
        start = partial(dataloader_stream, plan, reader, workers)
        # torch's default prefetch_factor is 2.
        return LoaderRunner(name, start, workers, plan.data.augment, ahead=2 * workers)

    cores, rates = usable_cores(), dict[int, float]()
    if cores == 1:
        return make_runner(1)
    for workers in sorted({count for count in (1, 2, 4, 8, 16, cores) if count <= cores}):
        runner = make_runner(workers)
        rates[workers] = runner.run(1.0, plan.device)
        runner.stop()
        say(f"{name} with {workers} workers: {rates[workers]:,.0f} images/s")
    return make_runner(max(rates, key=lambda workers: rates[workers]))


def our_stream(plan: LoadPlan, scratch: Path) -> Callable[[], Stream]:
    """Return a function that starts an endless stream of our loader's training batches.

    Args:
        plan: names the loader, the pictures, and how they are augmented.
        scratch: folder for decoded pictures.
    """

    def start() -> Stream:
        loader = make_loader(plan, scratch)
        try:
            for epoch in itertools.count():
                for batch in loader.epoch(epoch):
                    yield batch.images
        finally:
            loader.close()

    return start


def _train_endlessly(recipe: Recipe, device: torch.device) -> Stream:
    """Train the recipe's model on one random batch without end; yield the batch after each step."""
    count = recipe.optim.batch_size if device.type == "cuda" else min(recipe.optim.batch_size, 16)
    student = make_random_student(recipe, 1000, device, build_method("no-treatment", num_old=1000))
    set_learning_rate(student.optimizer, 0.0)
    batch = random_batch(recipe, count, 1000, device)
    while True:
        step_alone(student, batch)
        yield batch.images


def _wait_for(device: torch.device) -> None:
    """Wait until a GPU has done its work; return at once for a CPU."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
