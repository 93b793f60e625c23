"""Settings of torch for a run: memory, determinism, and the number of threads with the shortest step."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from mptctl.machine.device import keep_freed_memory
from mptctl.machine.facts import usable_cores, world_size
from mptctl.machine.kept_threads import KeptThreads, keep_threads, machine_key, read_kept_threads
from mptctl.methods.rows import ROWS
from mptctl.names import Role
from mptctl.recipe import Recipe, change_recipe
from mptctl.training.estimate import seconds_per_picture, step_seconds
from mptctl.training.request import RunRequest


@contextlib.contextmanager
def torch_settings(recipe: Recipe, device: torch.device) -> Iterator[None]:
    """Set threads, memory, GPU and determinism for the block; restore all but the GPU afterwards.

    Args:
        recipe: of the run.
        device: from `choose_device`, which sets up deterministic matrix products.
    """
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    benchmark = torch.backends.cudnn.benchmark
    if recipe.runtime.threads:
        torch.set_num_threads(recipe.runtime.threads)
    if device.type == "cuda":
        torch.cuda.set_device(device)
        torch.backends.cudnn.benchmark = not recipe.runtime.deterministic
        if recipe.runtime.deterministic:
            torch.use_deterministic_algorithms(True)
    try:
        with keep_freed_memory() if device.type == "cpu" else contextlib.nullcontext():
            yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic)
        torch.backends.cudnn.benchmark = benchmark


# All cores are used unless fewer threads are faster by more than this fraction; timings vary about as much.
WORTH_IT = 0.05
# Load average for each core above which the machine is busy. Timings are then neither kept nor looked up.
BUSY = 0.25
# Keys of a recipe on which the time of a step depends.
_DECISIVE: dict[str, Any] = {
    "data": {"image_size"},
    "model": True,
    "optim": {"name", "batch_size", "accumulate"},
    "criterion": {"name"},
    "method": {"name"},
    "runtime": {"precision", "teacher_precision", "channels_last", "compile", "cache_teachers"},
}


def choose_threads(request: RunRequest, device: torch.device) -> tuple[RunRequest, list[str]]:
    """Choose the number of torch's threads by timing steps, and set it.

    Nothing is timed or set on a GPU, on one core, with several workers, or if the user has chosen: by
    ``runtime.threads``, ``runtime.tune=false`` or ``OMP_NUM_THREADS`` (which `torchrun` and Ray set for their
    workers). If ``runtime.threads`` is above the number of cores, as many threads as cores are set.

    Timings of a machine that is not busy are kept for the next run of a like model.

    Args:
        request: the run.
        device: where the run computes.

    Returns:
        The request with the chosen number in its recipe, and notes on the timings; the same request if
        nothing was timed.
    """
    runtime, cores = request.recipe.runtime, usable_cores()
    cores_here = max(1, cores // world_size())
    if device.type == "cpu" and runtime.threads > cores_here:
        torch.set_num_threads(cores_here)
        return request, [
            f"warning: runtime.threads {runtime.threads}: there are cores for {cores_here}, which are taken"
        ]
    is_set = runtime.threads or not runtime.tune or "OMP_NUM_THREADS" in os.environ
    if is_set or device.type != "cpu" or cores == 1 or world_size() > 1:
        return request, []
    decisive = request.recipe.model_dump(mode="json", include=_DECISIVE)
    decisive |= {"classes": request.num_classes, "refs": len(request.refs)}
    model_key = json.dumps(decisive, sort_keys=True)
    is_busy = os.getloadavg()[0] > BUSY * cores
    usable = [] if is_busy else [timing for timing in read_kept_threads() if timing.model == model_key]
    timing = usable[0] if usable else None
    if timing is None:
        step_ms = {threads: 1000 * seconds for threads, seconds in time_threads(request, device, cores)}
        recipe = request.recipe
        timing = KeptThreads(
            machine=machine_key(),
            model=model_key,
            name=f"{recipe.model.arch} at {recipe.data.image_size} pixels, "
            f"batches of {recipe.optim.batch_size}, {recipe.method.name}",
            threads=choose_fastest(step_ms),
            step_ms=step_ms,
        )
        if not is_busy:
            keep_threads(timing)
    torch.set_num_threads(timing.threads)
    steps = ", ".join(f"{threads}: {timing.step_ms[threads]:.0f}" for threads in sorted(timing.step_ms))
    note = f"threads: {timing.threads}; milliseconds of a step with {steps} (runtime.threads says otherwise)"
    return _with_threads(request, timing.threads), [note]


def _with_threads(request: RunRequest, threads: int) -> RunRequest:
    """Return the request with a number of threads in its recipe."""
    return replace(request, recipe=change_recipe(request.recipe, {"runtime.threads": threads}, "threads"))


def time_threads(request: RunRequest, device: torch.device, cores: int) -> Iterator[tuple[int, float]]:
    """Time a step with all cores, half of them, and so on, until a step is slower by more than `WORTH_IT`.

    Teachers are taken to be models like the student. With fewer threads than cores, a teacher's forward pass
    and the student's step run at the same time.

    Args:
        request: the run.
        device: the CPU.
        cores: number of cores that this process may use.

    Yields:
        A number of threads, and the seconds of a step.
    """
    before = torch.get_num_threads()
    roles = ROWS[request.recipe.method.name].teachers
    teachers = int(Role.OLD in roles) + (len(request.refs) if Role.REF in roles else 0)
    if request.recipe.runtime.cache_teachers:
        teachers = 0
    threads, shortest = cores, float("inf")
    try:
        while threads:
            torch.set_num_threads(threads)
            recipe = _with_threads(request, threads).recipe
            step = step_seconds(recipe, request.num_classes, device)
            of_teachers = (
                teachers * seconds_per_picture(recipe, request.num_classes, device) * recipe.optim.batch_size
            )
            seconds = max(step, of_teachers) if threads < cores else step + of_teachers
            yield threads, seconds
            if seconds > shortest * (1 + WORTH_IT):
                return
            threads, shortest = threads // 2, min(shortest, seconds)
    finally:
        torch.set_num_threads(before)


def choose_fastest(step_ms: dict[int, float]) -> int:
    """Return the number of threads with the shortest step, or the largest if at most `WORTH_IT` slower.

    Args:
        step_ms: milliseconds of a step by number of threads.

    >>> choose_fastest({2: 100.0, 1: 96.0})  # 1.05 * 96 is above 100
    2
    >>> choose_fastest({2: 100.0, 1: 95.0})  # 1.05 * 95 is below 100
    1
    """
    largest, best = max(step_ms), min(step_ms, key=lambda threads: step_ms[threads])
    return best if step_ms[best] * (1 + WORTH_IT) < step_ms[largest] else largest
