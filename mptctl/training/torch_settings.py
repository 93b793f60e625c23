"""Settings of torch for a run: memory, determinism, and as many threads as make its step shortest."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch

from mptctl.machine.device import freed_memory_kept
from mptctl.machine.facts import usable_cores, world_size
from mptctl.machine.kept_threads import KeptThreads, keep, kept_here, machine_key
from mptctl.methods.rows import ROWS
from mptctl.names import Role
from mptctl.recipe import Recipe, change_recipe
from mptctl.training.estimate import answer_seconds, step_seconds
from mptctl.training.request import RunRequest


@contextlib.contextmanager
def torch_settings(recipe: Recipe, device: torch.device) -> Iterator[None]:
    """Set threads, memory and determinism for a run; the settings before it are restored afterwards.

    The device is one of `choose_device`, which has set what deterministic matrix products need.
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
        with freed_memory_kept() if device.type == "cpu" else contextlib.nullcontext():
            yield
    finally:
        torch.set_num_threads(threads)
        torch.use_deterministic_algorithms(deterministic)
        torch.backends.cudnn.benchmark = benchmark


# All cores are taken unless another number of threads is faster by more than this part: timings vary so much.
WORTH_IT = 0.05
# Load average for each core above which the machine is busy: then timings are not kept, and kept ones not
# used.
BUSY = 0.25
# Keys of a recipe that decide how long a step is.
_DECISIVE: dict[str, Any] = {
    "data": {"image_size"},
    "model": True,
    "optim": {"name", "batch_size", "accumulate"},
    "criterion": {"name"},
    "method": {"name"},
    "runtime": {"precision", "teacher_precision", "channels_last", "compile", "cache_teachers"},
}


def choose_threads(request: RunRequest, device: torch.device) -> tuple[RunRequest, list[str]]:
    """Choose the number of torch's threads by timing steps, unless it is set, and set it.

    It is set by ``runtime.threads``, by ``runtime.tune=false``, or by ``OMP_NUM_THREADS``, as `torchrun` and
    Ray do for their workers. More threads than cores, as when a run is resumed on a smaller machine, become
    as many as there are cores.

    Args:
        request: the run.
        device: where it computes.

    Returns:
        The request with the number in its recipe, and a note on the timings; the request as it is and no note
        where nothing was timed.
    """
    runtime, cores = request.recipe.runtime, usable_cores()
    if device.type == "cpu" and runtime.threads > (here := max(1, cores // world_size())):
        torch.set_num_threads(here)
        return request, [
            f"warning: runtime.threads {runtime.threads}: there are cores for {here}, which are taken"
        ]
    said = runtime.threads or not runtime.tune or "OMP_NUM_THREADS" in os.environ
    if said or device.type != "cpu" or cores == 1 or world_size() > 1:
        return request, []
    decisive = request.recipe.model_dump(mode="json", include=_DECISIVE)
    model = json.dumps(decisive | {"classes": request.num_classes, "refs": len(request.refs)}, sort_keys=True)
    busy = os.getloadavg()[0] > BUSY * cores
    kept = None if busy else next((kept for kept in kept_here() if kept.model == model), None)
    if kept is None:
        step_ms = {threads: 1000 * seconds for threads, seconds in time_threads(request, device, cores)}
        recipe = request.recipe
        kept = KeptThreads(
            machine=machine_key(),
            model=model,
            name=f"{recipe.model.arch} at {recipe.data.image_size} pixels, "
            f"batches of {recipe.optim.batch_size}, {recipe.method.name}",
            threads=fastest(step_ms),
            step_ms=step_ms,
        )
        if not busy:
            keep(kept)
    torch.set_num_threads(kept.threads)
    steps = ", ".join(f"{threads}: {kept.step_ms[threads]:.0f}" for threads in sorted(kept.step_ms))
    note = f"threads: {kept.threads}; milliseconds of a step with {steps} (runtime.threads says otherwise)"
    return _with_threads(request, kept.threads), [note]


def _with_threads(request: RunRequest, threads: int) -> RunRequest:
    return replace(request, recipe=change_recipe(request.recipe, {"runtime.threads": threads}, "threads"))


def time_threads(request: RunRequest, device: torch.device, cores: int) -> Iterator[tuple[int, float]]:
    """Time a step with all cores, with half of them, and so on, until it is slower.

    Teachers are taken to be models like the student. Where cores are left, they answer while it learns.

    Args:
        request: the run.
        device: the CPU.
        cores: that this process may use.

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
            answers = teachers * answer_seconds(recipe, request.num_classes, device) * recipe.optim.batch_size
            seconds = max(step, answers) if threads < cores else step + answers
            yield threads, seconds
            if seconds > shortest * (1 + WORTH_IT):
                return
            threads, shortest = threads // 2, min(shortest, seconds)
    finally:
        torch.set_num_threads(before)


def fastest(step_ms: dict[int, float]) -> int:
    """The number of threads with the shortest step; the largest where that is slower by at most `WORTH_IT`.

    Args:
        step_ms: milliseconds of a step by number of threads.

    >>> fastest({2: 100.0, 1: 96.0}), fastest({2: 100.0, 1: 95.0})  # 1.05 * 96 is above 100, 1.05 * 95 is not
    (2, 1)
    """
    most, best = max(step_ms), min(step_ms, key=lambda threads: step_ms[threads])
    return best if step_ms[best] * (1 + WORTH_IT) < step_ms[most] else most
