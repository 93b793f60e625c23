"""Settings of torch for a run: memory, determinism, and the number of threads."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from dataclasses import replace

import torch

from mptctl.machine.device import keep_freed_memory
from mptctl.machine.facts import usable_cores, world_size
from mptctl.recipe import Recipe, change_recipe
from mptctl.training.request import RunRequest

# Side of a picture in pixels up to which one thread is faster than several.
TINY = 8


@contextlib.contextmanager
def torch_settings(recipe: Recipe, device: torch.device) -> Iterator[None]:
    """Set threads, memory, GPU and determinism for the block; restore all but the GPU afterwards.

    Args:
        recipe: of the run.
        device: from `choose_device`, which sets up deterministic matrix products.
    """
    threads, deterministic = torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()
    warns_only = torch.is_deterministic_algorithms_warn_only_enabled()
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
        torch.use_deterministic_algorithms(deterministic, warn_only=warns_only)
        torch.backends.cudnn.benchmark = benchmark


def choose_threads(request: RunRequest, device: torch.device) -> tuple[RunRequest, list[str]]:
    """Choose the number of torch's threads on a CPU, and set it.

    Pictures of at most `TINY` pixels take one thread, since layers are then too small to be shared; others
    take all cores that this worker may use. ``runtime.threads`` decides otherwise, and so does
    ``OMP_NUM_THREADS``, which `torchrun` and Ray set for their workers. More threads than cores are never
    taken.

    Args:
        request: the run.
        device: where the run computes.

    Returns:
        The request with the chosen number in its recipe, and notes; the same request on a GPU, or where
        somebody has said how many.
    """
    runtime, cores = request.recipe.runtime, max(1, usable_cores() // world_size())
    if device.type == "cpu" and runtime.threads > cores:
        torch.set_num_threads(cores)
        return request, [
            f"warning: runtime.threads {runtime.threads}: there are cores for {cores}, which are taken"
        ]
    if device.type != "cpu" or runtime.threads or "OMP_NUM_THREADS" in os.environ:
        return request, []
    threads = 1 if request.recipe.data.image_size <= TINY else cores
    torch.set_num_threads(threads)
    recipe = change_recipe(request.recipe, {"runtime.threads": threads}, "threads")
    return replace(request, recipe=recipe), [f"threads: {threads} (runtime.threads says otherwise)"]
