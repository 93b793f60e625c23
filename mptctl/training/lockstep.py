"""Several runs in one process, step by step in turn, on the same batches and the same answers of teachers."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mptctl.errors import UsageError
from mptctl.machine.device import choose_device
from mptctl.machine.facts import world_size
from mptctl.machine.signals import stop_on_signals
from mptctl.recipe import batch_differences, change_recipe
from mptctl.training.distributed import ProcessGroup
from mptctl.training.fit import fit_by_steps
from mptctl.training.lockstep_sharing import SharedParts
from mptctl.training.observer import FitResult, Observer
from mptctl.training.request import RunRequest
from mptctl.training.run import Run
from mptctl.training.torch_settings import torch_settings, with_own_threads
from mptctl.training.train import begin, hold

Ended = FitResult | Exception


@dataclass
class _Turn:
    """A run that takes turns, with the state of torch's random numbers that it would have alone."""

    place: int
    run: Run
    steps: Generator[None, None, FitResult]
    random: list[Tensor]


def train_in_lockstep(requests: Sequence[RunRequest], observers: Sequence[Observer]) -> list[Ended]:
    """Train several runs in turn: each batch is loaded once, and each teacher answers it once.

    Every run does what `train` would do with it alone, down to the bit. The run that is furthest behind goes next, so
    that runs that begin at different steps come together. One that fails leaves the others alone.

    Args:
        requests: runs that differ in method, optimizer, model and length alone.
        observers: one for each run.

    Returns:
        For each run what came of it, or why it has ended early.

    Raises:
        UsageError: runs that see other batches, have another old model or another folder of teachers' answers than the
            first; or several workers.
    """
    refuse_other_batches(requests)
    ended: dict[int, Ended] = {}
    device = choose_device(requests[0].recipe.runtime.device)
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch_settings(requests[0].recipe, device))
        requests = _with_threads_of_first(requests, device)
        group, parts = ProcessGroup(), SharedParts()
        held = []
        for place, request in enumerate(requests):
            try:
                hold(request, group, stack)
                held.append(place)
            except Exception as error:
                ended[place] = error
        stop = stack.enter_context(stop_on_signals())
        turns = []
        for place in held:
            try:
                run = begin(requests[place], observers[place], device, group, stop, stack, parts)
                steps = fit_by_steps(run, stop, observers[place])
                turns.append(_Turn(place, run, steps, _random_state(device)))
            except Exception as error:
                ended[place] = error
        parts.open()
        while turns:
            turn = min(turns, key=lambda turn: turn.run.state.global_step)
            _set_random_state(turn.random, device)
            try:
                next(turn.steps)
                turn.random = _random_state(device)
                continue
            except StopIteration as end:
                ended[turn.place] = end.value
            except Exception as error:
                ended[turn.place] = error
            turns.remove(turn)
    return [ended[place] for place in range(len(requests))]


def refuse_other_batches(requests: Sequence[RunRequest]) -> None:
    """Refuse runs that cannot share their batches.

    Raises:
        UsageError: names the run and what differs; or there are several workers.
    """
    if world_size() > 1:
        raise UsageError(
            "lock-step: takes one process, and torchrun started several; start it without torchrun"
        )
    first, *others = requests
    for request in others:
        differs = [
            f"{key} ({was} and {is_now})"
            for key, was, is_now in batch_differences(first.recipe, request.recipe)
        ]
        if request.split.fingerprint != first.split.fingerprint:
            differs.append("split")
        if request.num_classes != first.num_classes:
            differs.append("classes")
        if request.old != first.old:
            differs.append("old model")
        if request.cache_dir != first.cache_dir:
            differs.append("cache")
        if differs:
            raise UsageError(
                f"{request.folder}: cannot go in lock-step with {first.folder}, since these differ: "
                f"{', '.join(differs)}; give them the same, or train them one by one"
            )


def _with_threads_of_first(requests: Sequence[RunRequest], device: torch.device) -> list[RunRequest]:
    """All with the number of threads that is found for the first, where none is said."""
    first, _ = with_own_threads(requests[0], device)
    threads = {"runtime.threads": first.recipe.runtime.threads}
    return [
        replace(request, recipe=change_recipe(request.recipe, threads, str(request.folder)))
        for request in requests
    ]


def _random_state(device: torch.device) -> list[Tensor]:
    state = [torch.get_rng_state()]
    return [*state, torch.cuda.get_rng_state(device)] if device.type == "cuda" else state


def _set_random_state(state: Sequence[Tensor], device: torch.device) -> None:
    torch.set_rng_state(state[0])
    if device.type == "cuda":
        torch.cuda.set_rng_state(state[1], device)
