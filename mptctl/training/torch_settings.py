"""How torch is set up for a run: threads, memory, determinism, the search for fast algorithms."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch

from mptctl.machine.allocator import freed_memory_kept
from mptctl.recipe import Recipe


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
