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
    """Threads, memory and determinism of a run; what was set before comes back afterwards.

    The device is one of `choose_device`, which has made room for matrix products that repeat themselves.
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


# All cores are taken unless another number is faster by more than this part, which timings differ by anyway.
WORTH_IT = 0.05
# Load average by core above which something else computes: what is found then is not kept, and what is kept
# not taken.
BUSY = 0.25
# Parts of a recipe that decide how long a step is.
_DECISIVE: dict[str, Any] = {
    "data": {"image_size"},
    "model": True,
    "optim": {"name", "batch_size", "accumulate"},
    "criterion": {"name"},
    "method": {"name"},
    "runtime": {"precision", "teacher_precision", "channels_last", "compile", "cache_teachers"},
}


def choose_threads(request: RunRequest, device: torch.device) -> tuple[RunRequest, list[str]]:
    """Choose a number of threads where nobody has said one; torch takes it from here on.

    Of more threads than there are cores, as when a run goes on on a smaller machine, torch takes as many as
    there are. Somebody has said one with ``runtime.threads``, ``runtime.tune=false``, or ``OMP_NUM_THREADS``,
    as `torchrun` and Ray do for their workers.

    Args:
        request: what was asked for.
        device: where it computes.

    Returns:
        The request with that number in its recipe, and a note that says what was found; none where nothing
        was to be found.
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
    """Numbers of threads with the seconds of a step: all cores, half of them, and so on, until one is slower.

    Teachers are taken to be models like the student. Where cores are left, they answer while it learns.

    Args:
        request: what is to be trained.
        device: the CPU.
        cores: that this process may use.
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
