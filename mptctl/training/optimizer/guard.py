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


class NonFiniteGuard:
    """Checks each step for numbers that are not finite; from the first such step on, no weight moves.

    Only `failed` waits for the device, so it is called now and then, and not in each step. Until then the
    device keeps number, terms and norms of the last step before which all were finite. All tensors stay where
    they are, so that a captured graph of a step can be replayed.

    Args:
        model: the student. Its buffers (batch statistics) are copied before each step, since the forward pass
            changes them.
        device: of the model.

    Attributes:
        skip: scalar on the device: 1 if updates are skipped, else 0.
        can_look: whether the host may read numbers in each step. So it may on a CPU, where reading waits for
            nothing.
    """

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        # Grouped by type, since torch joins tensors of several types one by one.
        types = {buffer.dtype for buffer in model.buffers()}
        self._groups = [[b for b in model.buffers() if b.dtype == one] for one in types]
        self.skip = torch.zeros((), device=device)  # the type that fused optimizers expect of found_inf
        self.can_look = device.type == "cpu"
        self._copies = self._copy_buffers()
        # Of the last step before which all were finite: its number, counted from 0, the terms of its loss,
        # and the norms of its gradients.
        self._step = torch.full((), -1, dtype=torch.int64, device=device)
        self._terms: dict[str, Tensor] = {}
        self._values = self._norms = torch.empty(0, device=device)  # `_terms` are parts of the former
        self._names: list[str] = []

    def before_forward(self) -> None:
        """Copy the buffers for `restore`, unless a step has failed already."""
        if self.can_look:
            if self.skip.item() == 0:
                self._copies = self._copy_buffers()
            return
        # On joined buffers: a launch for each buffer of a deep network would cost more than all other checks.
        failed = self.skip > 0
        for kept, now in zip(self._copies, self._copy_buffers(), strict=True):
            torch.where(failed, kept, now, out=kept)

    def check(self, terms: dict[str, Tensor], gradients: dict[str, Tensor]) -> None:
        """Set `skip` if the loss or the gradients of a step are not finite.

        To be called before the update, and before clipping, which spreads a NaN to all gradients.

        Args:
            terms: scalar terms of the loss by name, "loss" among them.
            gradients: of all trained weights, by name; the same names in every step.
        """
        self._names = list(gradients)
        norms = _norms(list(gradients.values()), can_look=self.can_look)
        # In single precision, as clipping sums squares: gradients beyond its range end the run too.
        square = norms.square().sum().float()
        if self.can_look:
            self._check_on_host(terms, norms, square)
        else:
            self._check_on_device(terms, norms, square)

    def _check_on_host(self, terms: dict[str, Tensor], norms: Tensor, square: Tensor) -> None:
        """Set `skip` by numbers that the host reads."""
        if self.skip.item() != 0:
            return
        self._step += 1
        self._terms, self._norms = terms, norms
        if not (math.isfinite(terms["loss"]) and math.isfinite(square)):
            self.skip.fill_(1.0)

    def _check_on_device(self, terms: dict[str, Tensor], norms: Tensor, square: Tensor) -> None:
        """Set `skip` without a number read by the host, in tensors that stay where they are."""
        # Without the counts, which are always finite and of another type.
        floats = {name: term for name, term in terms.items() if term.is_floating_point()}
        values = torch.stack(list(floats.values()))
        if self._terms.keys() != floats.keys():  # in the first step, and in the first one of another method
            self._values, self._norms = torch.zeros_like(values), torch.zeros_like(norms)
            self._terms = dict(zip(floats, self._values, strict=True))
        all_finite = self.skip == 0
        self._step.add_(all_finite)
        torch.where(all_finite, values, self._values, out=self._values)
        torch.where(all_finite, norms, self._norms, out=self._norms)
        zero_or_nan = (terms["loss"] * 0).add_(square, alpha=0)  # NaN if one of both is not finite
        self.skip.logical_or_(zero_or_nan)  # NaN counts as true

    def failed(self) -> Failure | None:
        """Return the first step that was not finite, or None, after waiting for the device."""
        if self.skip.item() == 0:
            return None
        terms = {name: float(value) for name, value in self._terms.items()}
        return Failure(int(self._step), self._describe_cause(terms, self._norms.tolist()), terms)

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


def _norms(gradients: list[Tensor], *, can_look: bool) -> Tensor:
    """Return (len(gradients),) 2-norms in double precision; a norm is finite if all its elements are."""
    if not can_look:
        return torch.stack(torch._foreach_norm(gradients, 2, dtype=torch.float64))
    # On a CPU double precision takes many times as long, so it is used only after an overflow.
    norms = torch.stack(torch._foreach_norm(gradients))
    if not math.isfinite(norms.sum()):
        norms = torch.stack(torch._foreach_norm(gradients, 2, dtype=torch.float64))
    return norms.double()
