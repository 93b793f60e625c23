"""Non-finite numbers: the update is skipped on the device, and found out without waiting for it."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn


@dataclass(frozen=True)
class Failure:
    """The first step that was not finite.

    Attributes:
        step: its number, counted from 0 at the guard's first step.
        what: the term, the gradient or the norm that was not finite, for a message.
        terms: scalars of its loss by name.
    """

    step: int
    what: str
    terms: dict[str, float]


@dataclass(frozen=True)
class _Look:
    """A checked step.

    Attributes:
        step: its number, from 0.
        terms: scalars of its loss by name, on the device.
        norms: (weights,) norms of its gradients.
        skip: 1 where this step or an earlier one was not finite, else 0.
    """

    step: int
    terms: dict[str, Tensor]
    norms: Tensor
    skip: Tensor


class NonFiniteGuard:
    """Checks each step; from the first one that is not finite on, no weight moves.

    Everything stays on the device; only `failed` waits for it, so it is called now and then. The scalars of
    all steps since its last call are kept, because selecting those of the first bad step on the device would
    take a launch for each.

    Args:
        model: its buffers (batch statistics) are kept aside, since the forward pass changes them.
        device: of the model.
    """

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        # Buffers of one type together: torch joins tensors of several types one by one.
        types = {buffer.dtype for buffer in model.buffers()}
        self._groups = [[b for b in model.buffers() if b.dtype == one] for one in types]
        self.skip = torch.zeros((), device=device)  # the type that fused optimizers expect of found_inf
        self._can_look = device.type == "cpu"  # where looking at a number costs less than not having to
        self._kept = self._flat()
        self._seen: list[_Look] = []
        self._names: list[str] = []
        self._steps = 0

    def before_forward(self) -> None:
        """Keep the buffers as they are, unless a step has failed already."""
        if self._can_look:
            if self.skip.item() == 0:
                self._kept = self._flat()
            return
        # As one tensor: a launch for each of a deep network's buffers would cost more than the rest of the
        # guard.
        failed = self.skip > 0
        pairs = zip(self._kept, self._flat(), strict=True)
        self._kept = [torch.where(failed, kept, now) for kept, now in pairs]

    def check(self, terms: dict[str, Tensor], gradients: dict[str, Tensor]) -> None:
        """Check one step before its update, and before clipping, which spreads a NaN to all gradients.

        Args:
            terms: scalars of the loss; kept for the message.
            gradients: of all trained weights, by name; the same names in every step.
        """
        self._names = list(gradients)
        norms = _norms(list(gradients.values()))
        # In single precision, as clipping adds them up: gradients so large that it cannot end a run as well.
        square = norms.square().sum().float()
        if self._can_look:
            if self.skip.item() == 0:
                self._seen.clear()
            if not (math.isfinite(terms["loss"]) and math.isfinite(square)):
                self.skip = torch.ones_like(self.skip)
        else:
            finite = torch.isfinite(terms["loss"]) & torch.isfinite(square)
            self.skip = torch.maximum(self.skip, (~finite).to(self.skip.dtype))
        self._seen.append(_Look(self._steps, terms, norms, self.skip))
        self._steps += 1

    def failed(self) -> Failure | None:
        """The first step that was not finite; None if there was none. Waits for the device."""
        if self.skip.item() == 0:
            self._seen.clear()
            return None
        first = next(look for look in self._seen if look.skip.item() > 0)
        terms = {name: float(value) for name, value in first.terms.items()}
        return Failure(first.step, self._what(terms, first.norms.tolist()), terms)

    def _what(self, terms: dict[str, float], norms: list[float]) -> str:
        """Name the cause, not its consequences: a bad term spoils the loss, and a bad loss the gradients."""
        broken = [name for name, value in terms.items() if not math.isfinite(value)]
        if parts := [name for name in broken if name != "loss"]:
            return f"the term {' and the term '.join(parts)}"
        if broken:
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
        """Set the buffers to what they were before the step that failed."""
        for whole, group in zip(self._kept, self._groups, strict=True):
            parts = torch.split(whole, [buffer.numel() for buffer in group])
            for kept, buffer in zip(parts, group, strict=True):
                buffer.copy_(kept.view_as(buffer))

    def _flat(self) -> list[Tensor]:
        """A copy of all buffers, in one flat tensor for each type."""
        return [torch.cat([b.detach().reshape(-1) for b in group]) for group in self._groups]


def _norms(gradients: list[Tensor]) -> Tensor:
    """(len(gradients),) 2-norms in double precision; not finite only if an element is not."""
    if gradients[0].device.type != "cpu":
        return torch.stack(torch._foreach_norm(gradients, 2, dtype=torch.float64))
    # On a CPU double precision takes many times as long, and looking at a number costs nothing.
    norms = torch.stack(torch._foreach_norm(gradients))
    if not math.isfinite(norms.sum()):
        norms = torch.stack(torch._foreach_norm(gradients, 2, dtype=torch.float64))
    return norms.double()
