"""Skips updates from the first non-finite number on, without waiting for the device."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Failure:
    """The first step that was not finite.

    Attributes:
        step: number of the step, counted from 0 at the guard's first step.
        what: the term, the gradient or the norm that was not finite, for a message.
        terms: the terms of the step's loss by name.
    """

    step: int
    what: str
    terms: dict[str, float]


@dataclass(frozen=True)
class _CheckedStep:
    """A step that was checked, with what a message needs if it turns out to be the first bad one.

    Attributes:
        step: number of the step, counted from 0.
        terms: scalar terms of the step's loss by name, on the device.
        norms: (number of trained weights,) norms of their gradients.
        skip: scalar on the device: 1 where this step or an earlier one was not finite, else 0.
    """

    step: int
    terms: dict[str, Tensor]
    norms: Tensor
    skip: Tensor


class NonFiniteGuard:
    """Checks each step for numbers that are not finite; from the first such step on, no weight moves.

    Only `failed` waits for the device, so it is called now and then, and not in each step. The terms of all
    steps since the last such call are kept, because selecting those of the first bad step on the device would
    take a launch for each.

    Args:
        model: the student. Its buffers (batch statistics) are copied before each step, since the forward pass
            changes them.
        device: of the model.

    Attributes:
        skip: scalar on the device: 1 if updates are skipped, else 0.
    """

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        # Grouped by type, since torch joins tensors of several types one by one.
        types = {buffer.dtype for buffer in model.buffers()}
        self._groups = [[b for b in model.buffers() if b.dtype == one] for one in types]
        self.skip = torch.zeros((), device=device)  # the type that fused optimizers expect of found_inf
        self._can_look = device.type == "cpu"  # reading a number waits for nothing there
        self._copies = self._copy_buffers()
        self._seen: list[_CheckedStep] = []
        self._names: list[str] = []
        self._steps = 0

    def before_forward(self) -> None:
        """Copy the buffers for `restore`, unless a step has failed already."""
        if self._can_look:
            if self.skip.item() == 0:
                self._copies = self._copy_buffers()
            return
        # On joined buffers: a launch for each buffer of a deep network would cost more than all other checks.
        failed = self.skip > 0
        pairs = zip(self._copies, self._copy_buffers(), strict=True)
        self._copies = [torch.where(failed, copy, now) for copy, now in pairs]

    def check(self, terms: dict[str, Tensor], gradients: dict[str, Tensor]) -> None:
        """Set `skip` if the loss or the gradients of a step are not finite.

        To be called before the update, and before clipping, which spreads a NaN to all gradients.

        Args:
            terms: scalar terms of the loss by name, "loss" among them.
            gradients: of all trained weights, by name; the same names in every step.
        """
        self._names = list(gradients)
        norms = _norms(list(gradients.values()))
        # In single precision, as clipping sums squares: gradients beyond its range end the run too.
        square = norms.square().sum().float()
        if self._can_look:
            if self.skip.item() == 0:
                self._seen.clear()
            if not (math.isfinite(terms["loss"]) and math.isfinite(square)):
                self.skip = torch.ones_like(self.skip)
        else:
            finite = torch.isfinite(terms["loss"]) & torch.isfinite(square)
            self.skip = torch.maximum(self.skip, (~finite).to(self.skip.dtype))
        self._seen.append(_CheckedStep(self._steps, terms, norms, self.skip))
        self._steps += 1

    def failed(self) -> Failure | None:
        """Return the first step that was not finite, or None, after waiting for the device."""
        if self.skip.item() == 0:
            self._seen.clear()
            return None
        first = next(step for step in self._seen if step.skip.item() > 0)
        terms = {name: float(value) for name, value in first.terms.items()}
        return Failure(first.step, self._describe_cause(terms, first.norms.tolist()), terms)

    def _describe_cause(self, terms: dict[str, float], norms: list[float]) -> str:
        """Name what was not finite first: a bad term spoils the loss, and a bad loss the gradients.

        Args:
            terms: terms of the loss by name.
            norms: norms of the gradients, in the order of their names in `check`.
        """
        bad_terms = [name for name, value in terms.items() if name != "loss" and not math.isfinite(value)]
        if bad_terms:
            return f"the term {' and the term '.join(bad_terms)}"
        if not math.isfinite(terms["loss"]):
            return "the loss, while each of its terms is finite"
        weights = [name for name, norm in zip(self._names, norms, strict=True) if not math.isfinite(norm)]
        if weights:
            more = f" and of {len(weights) - 1} more of {len(norms)} weights" if weights[1:] else ""
            return f"the gradient of {weights[0]}{more}"
        total = math.hypot(*norms)
        if total**2 > torch.finfo(torch.float32).max:
            return f"the square of the gradients' norm, {total:.4g}, while every gradient is finite"
        return "a loss on another worker"

    def restore(self) -> None:
        """Set the model's buffers to their values before the step that failed."""
        for whole, group in zip(self._copies, self._groups, strict=True):
            parts = torch.split(whole, [buffer.numel() for buffer in group])
            for copy, buffer in zip(parts, group, strict=True):
                buffer.copy_(copy.view_as(buffer))

    def _copy_buffers(self) -> list[Tensor]:
        """Copy all buffers, into one flat tensor for each type."""
        return [torch.cat([b.detach().reshape(-1) for b in group]) for group in self._groups]


def _norms(gradients: list[Tensor]) -> Tensor:
    """Return (len(gradients),) 2-norms in double precision; a norm is finite if all its elements are."""
    if gradients[0].device.type != "cpu":
        return torch.stack(torch._foreach_norm(gradients, 2, dtype=torch.float64))
    # On a CPU double precision takes many times as long, so it is used only after an overflow.
    norms = torch.stack(torch._foreach_norm(gradients))
    if not math.isfinite(norms.sum()):
        norms = torch.stack(torch._foreach_norm(gradients, 2, dtype=torch.float64))
    return norms.double()
