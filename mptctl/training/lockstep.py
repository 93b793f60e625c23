"""Trains several runs in one process, step by step in turn, on the same batches and teacher logits."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mptctl.errors import UsageError
from mptctl.machine.device import choose_device
from mptctl.machine.facts import world_size
from mptctl.machine.signals import stop_on_signals
from mptctl.recipe import batch_differences, change_recipe
from mptctl.training.assemble import RunParts
from mptctl.training.distributed import ProcessGroup
from mptctl.training.fit import Trainer
from mptctl.training.observer import FitResult, Observer
from mptctl.training.request import RunRequest
from mptctl.training.torch_settings import choose_threads, torch_settings
from mptctl.training.train import begin_run, hold_folder

# The result of a run, or the error that ended it.
Ended = FitResult | Exception


@dataclass
class _Turn:
    """A run that takes turns, with its own state of torch's random numbers, as if it were alone.

    Attributes:
        place: of the run in the order of the requests.
        trainer: of the run.
        random: state of torch's random numbers on the CPU, and on the GPU where one is used.
    """

    place: int
    trainer: Trainer
    random: list[Tensor]

    def take_step(self, device: torch.device) -> None:
        """Let the trainer take one step on the run's own random numbers."""
        torch.set_rng_state(self.random[0])
        if device.type == "cuda":
            torch.cuda.set_rng_state(self.random[1], device)
        self.trainer.step()
        self.random = _random_state(device)


def train_in_lockstep(requests: Sequence[RunRequest], observers: Sequence[Observer]) -> list[Ended]:
    """Train several runs in turn: each batch is loaded once, and each teacher's logits are computed once.

    Every run has bitwise the weights that `train` would give it. The run with the fewest steps done is always
    next, so that runs resumed at different steps meet. A run that fails does not stop the others.

    Args:
        requests: runs that differ in method, optimizer, model and length alone.
        observers: one for each run, in the order of the requests.

    Returns:
        The result of each run, or the error that ended it.

    Raises:
        UsageError: a run has other batches, another old model or another cache folder than the first; or
            there are several workers.
    """
    refuse_other_batches(requests)
    ended: dict[int, Ended] = {}
    device = choose_device(requests[0].recipe.runtime.device)
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch_settings(requests[0].recipe, device))
        # All runs take the number of threads that is set or chosen for the first.
        first, _ = choose_threads(requests[0], device)
        threads = {"runtime.threads": first.recipe.runtime.threads}
        requests = [
            replace(request, recipe=change_recipe(request.recipe, threads, str(request.folder)))
            for request in requests
        ]
        group, parts = ProcessGroup(), RunParts(logits={})
        locked = []
        for place, request in enumerate(requests):
            with _keep_failure(ended, place):
                hold_folder(request, group, stack)
                locked.append(place)
        stop = stack.enter_context(stop_on_signals())
        begun = []
        for place in locked:
            with _keep_failure(ended, place):
                run = begin_run(requests[place], observers[place], device, group, stop, stack, parts)
                begun.append((place, run, _random_state(device)))
        if parts.budget is not None:
            parts.budget.evict()  # a run that failed after its `reserve` has closed the budget for all
        turns = []
        for place, run, random in begun:
            with _keep_failure(ended, place):
                trainer = stack.enter_context(Trainer(run, stop, observers[place]))
                turns.append(_Turn(place, trainer, random))
        _take_turns(turns, ended, device)
    return [ended[place] for place in range(len(requests))]


def _take_turns(turns: list[_Turn], ended: dict[int, Ended], device: torch.device) -> None:
    """Let the run with the fewest steps take the next one, until each run has its end in ``ended``."""
    while turns:
        turn = min(turns, key=lambda turn: turn.trainer.global_step)
        with _keep_failure(ended, turn.place):
            if not turn.trainer.done:
                turn.take_step(device)
            if turn.trainer.done:
                ended[turn.place] = turn.trainer.finish()
        turns = [turn for turn in turns if turn.place not in ended]


@contextlib.contextmanager
def _keep_failure(ended: dict[int, Ended], place: int) -> Iterator[None]:
    """Put any error of the block into ``ended``, as the end of the run at ``place``, and do not raise it."""
    try:
        yield
    except Exception as error:
        ended[place] = error


def refuse_other_batches(requests: Sequence[RunRequest]) -> None:
    """Refuse runs that cannot share their batches.

    Raises:
        UsageError: a run differs from the first in more than lock-step allows (the message names the run and
            what differs); or there are several workers.
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
        compared = {
            "split": (first.split.fingerprint, request.split.fingerprint),
            "classes": (first.num_classes, request.num_classes),
            "old model": (first.old, request.old),
            "cache": (first.cache_dir, request.cache_dir),
        }
        differs += [what for what, (of_first, of_request) in compared.items() if of_first != of_request]
        if differs:
            raise UsageError(
                f"{request.folder}: cannot go in lock-step with {first.folder}, since these differ: "
                f"{', '.join(differs)}; give them the same, or train them one by one"
            )


def _random_state(device: torch.device) -> list[Tensor]:
    """Return the state of torch's random numbers on the CPU and, for a GPU, on the device."""
    state = [torch.get_rng_state()]
    return [*state, torch.cuda.get_rng_state(device)] if device.type == "cuda" else state
