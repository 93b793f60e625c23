"""Times the training step on one fixed batch, beside its floor and the step of published code."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from pydantic import Field

from mpt_kernels import backend_for
from mptctl.bench.ways_to_train import STEP_ROWS, Way, ways_to_train
from mptctl.errors import UsageError
from mptctl.files import Model, scratch_folder
from mptctl.machine.device import Precision
from mptctl.machine.facts import Machine, this_machine
from mptctl.recipe import Recipe, change_recipe
from mptctl.training.torch_settings import torch_settings

# After the third, ours-graph captures its graph.
_WARM_STEPS = 4
Clock = Literal["wall", "cpu"]


class StepRow(Model):
    """The speed of one way to train, in one precision."""

    name: str = Field(
        description="student: forward, cross-entropy, backward, update; floor: student, and the forward "
        "passes of its teachers, which no step with teachers can do without; published: the usual loop of "
        "published code, with teachers in it, autograd through the loss, torch's default optimizer and "
        "memory format, one look at the loss a step; ours: the training loop's own step; ours-cached: the "
        "same with teachers' logits read from disk, as with runtime.cache_teachers; floor-graph and "
        "ours-graph: floor and ours replayed as one CUDA graph, as with runtime.graph"
    )
    precision: Precision = Field(description="of student and teachers: fp32, or bf16 under autocast")
    images_per_s: float = Field(description="median over the repeats")
    slowest: float = Field(description="images/s of the slowest repeat")
    fastest: float = Field(description="images/s of the fastest repeat")
    ms: float = Field(description="milliseconds a step, at the median")


class Ratio(Model):
    """Time of one row divided by that of another, computed for each repeat; rows take turns in it."""

    median: float = Field(description="over the repeats")
    smallest: float = Field(description="of any repeat")
    largest: float = Field(description="of any repeat")


class StepRatios(Model):
    """Ratios of our step to others in one precision; null where a row was not measured."""

    precision: Precision = Field(description="of both rows")
    ours_to_floor: Ratio | None = Field(description="ours over floor")
    cached_to_student: Ratio | None = Field(description="ours-cached over student")
    ours_to_published: Ratio | None = Field(description="ours over published")
    graph_to_floor_graph: Ratio | None = Field(None, description="ours-graph over floor-graph")
    graph_to_ours: Ratio | None = Field(None, description="ours-graph over ours")
    ours_to_fp32: Ratio | None = Field(description="ours over ours in fp32; null for fp32 itself")


class StepBench(Model):
    """The object that `mptctl bench step --json` prints."""

    bench: Literal["step"] = "step"
    machine: Machine = Field(description="where it was measured")
    threads: int = Field(description="of torch, on the CPU")
    method: str = Field(description="whose teachers and loss")
    arch: str = Field(description="of student and teachers")
    image_size: int = Field(description="pixels")
    batch_size: int = Field(description="pictures a step")
    num_classes: int = Field(description="of student and reference; half of them are old")
    loss_backend: str = Field(description="reference or triton")
    tf32: bool = Field(
        False,
        description="whether convolutions of rows in fp32 were computed in TF32, torch's default on a GPU",
    )
    clock: Clock = Field(
        description="wall: time as it passes; cpu: processor time of this process, which other jobs change "
        "least"
    )
    steps: int = Field(description="of a row in each repeat")
    repeats: int = Field(description="rounds; all rows take turns in each")
    rows: list[StepRow] = Field(description="one for each way to train and precision")
    skipped: dict[str, str] = Field(description="rows that cannot be measured with this recipe, and why")
    ratios: list[StepRatios] = Field(description="one for each precision")


# Seconds of each repeat, by precision and name of the row.
Seconds = dict[tuple[Precision, str], list[float]]


def bench_step(
    recipe: Recipe,
    *,
    num_classes: int,
    steps: int,
    repeats: int,
    device: torch.device,
    rows: tuple[str, ...] = STEP_ROWS,
    precisions: tuple[str, ...] | None = None,
    clock: Clock = "wall",
) -> StepBench:
    """Time ways to train on one fixed batch, in turns.

    Teachers are untrained models of the student's architecture.

    Args:
        recipe: model, batch size, method and threads.
        num_classes: number of classes of student and reference.
        steps: number of optimizer steps of one repeat.
        repeats: number of turns of each way.
        device: where the steps compute.
        rows: some of `STEP_ROWS`.
        precisions: fp32, bf16 or both, for student and teachers alike; None: as in the recipe.
        clock: wall; or cpu, for a CPU: processor time, with one thread the same as wall on an idle machine.

    Raises:
        UsageError: the clock is cpu and the device a GPU; or see `ways_to_train`.
    """
    if clock == "cpu" and device.type != "cpu":
        raise UsageError(f"--clock cpu: {device} computes; use --clock wall, or --device cpu")
    now = time.process_time if clock == "cpu" else time.perf_counter
    with scratch_folder() as scratch, torch_settings(recipe, device):
        ways: dict[tuple[Precision, str], Way] = {}
        skipped: dict[str, str] = {}
        for one in _set_precisions(recipe, precisions):
            ways_of_one, left_out = ways_to_train(one, num_classes, device, scratch, rows)
            ways |= {(one.runtime.precision, name): way for name, way in ways_of_one.items()}
            skipped |= left_out
        seconds = _time_in_turns(ways, steps, repeats, lambda way, count: _time(way, count, device, now))
        threads = torch.get_num_threads()
    return StepBench(
        machine=this_machine(),
        threads=threads,
        method=recipe.method.name,
        arch=recipe.model.arch,
        image_size=recipe.data.image_size,
        batch_size=recipe.optim.batch_size,
        num_classes=num_classes,
        loss_backend=backend_for(torch.empty(1, num_classes, device=device)),
        tf32=device.type == "cuda" and _convolutions_in_tf32(),
        clock=clock,
        steps=steps,
        repeats=repeats,
        rows=[
            _row(name, precision, times, steps, recipe.optim.batch_size)
            for (precision, name), times in seconds.items()
        ],
        skipped=skipped,
        ratios=step_ratios(seconds),
    )


def _row(name: str, precision: Precision, times: Sequence[float], steps: int, batch_size: int) -> StepRow:
    """Make the row of a way to train.

    Args:
        name, precision: of the way.
        times: seconds of each repeat.
        steps: number of steps of a repeat.
        batch_size: number of pictures of a step.
    """
    pictures = steps * batch_size
    return StepRow(
        name=name,
        precision=precision,
        images_per_s=round(pictures / statistics.median(times), 1),
        slowest=round(pictures / max(times), 1),
        fastest=round(pictures / min(times), 1),
        ms=round(1e3 * statistics.median(times) / steps, 3),
    )


def _convolutions_in_tf32() -> bool:
    """Tell whether torch computes convolutions of float32 in TF32."""
    convolutions: Any = torch.backends.cudnn.conv  # type: ignore[attr-defined]  # torch's stubs lack it
    return bool(convolutions.fp32_precision == "tf32")


def step_ratios(seconds: Seconds) -> list[StepRatios]:
    """Compute the ratios between rows, for each precision that was measured."""

    def ratio(above: tuple[Precision, str], below: tuple[Precision, str]) -> Ratio | None:
        """Divide the seconds of two rows; None if one was not measured, or both are the same row."""
        if above not in seconds or below not in seconds or above == below:
            return None
        # For each repeat by itself, since the machine's speed drifts from repeat to repeat.
        of_each = [a / b for a, b in zip(seconds[above], seconds[below], strict=True)]
        median, smallest, largest = (round(f(of_each), 4) for f in (statistics.median, min, max))
        return Ratio(median=median, smallest=smallest, largest=largest)

    return [
        StepRatios(
            precision=precision,
            ours_to_floor=ratio((precision, "ours"), (precision, "floor")),
            cached_to_student=ratio((precision, "ours-cached"), (precision, "student")),
            ours_to_published=ratio((precision, "ours"), (precision, "published")),
            graph_to_floor_graph=ratio((precision, "ours-graph"), (precision, "floor-graph")),
            graph_to_ours=ratio((precision, "ours-graph"), (precision, "ours")),
            ours_to_fp32=ratio((precision, "ours"), ("fp32", "ours")),
        )
        for precision in dict.fromkeys(precision for precision, _ in seconds)
    ]


def _set_precisions(recipe: Recipe, precisions: tuple[str, ...] | None) -> list[Recipe]:
    """Return the recipe with each precision set for student and teachers; None: the recipe itself."""
    if precisions is None:
        return [recipe]
    return [
        change_recipe(recipe, {"runtime.precision": name, "runtime.teacher_precision": name}, "--precision")
        for name in dict.fromkeys(precisions)
    ]


def _time_in_turns(
    ways: dict[tuple[Precision, str], Way], steps: int, repeats: int, time_steps: Callable[[Way, int], float]
) -> Seconds:
    """Warm up all ways, and time them in turns.

    Args:
        ways: by precision and name.
        steps: number of steps of a way in each repeat.
        repeats: number of repeats.
        time_steps: takes a number of steps of a way, and returns their seconds.

    Returns:
        Seconds of each repeat, by precision and name.
    """
    for way in ways.values():
        time_steps(way, _WARM_STEPS)
    seconds: Seconds = {key: [] for key in ways}
    for repeat in range(repeats):
        # In turn forwards and backwards, so that a drift of the machine's speed meets all ways alike.
        order = reversed(ways) if repeat % 2 else iter(ways)
        for key in order:
            seconds[key].append(time_steps(ways[key], steps))
    return seconds


def _time(way: Way, steps: int, device: torch.device, now: Callable[[], float]) -> float:
    """Take some steps of a way, the device's work included; return their seconds by the clock ``now``."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    begin = now()
    for _ in range(steps):
        way()
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return now() - begin
