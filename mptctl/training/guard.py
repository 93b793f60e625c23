"""Non-finite numbers: the update is skipped on the device, and found out without waiting for it."""

from __future__ import annotations

import torch
from torch import Tensor, nn


class NonFiniteGuard:
    """Watches each step, and from the first one that is not finite on lets no weight move.

    Everything stays on the device; only `failed` waits for it, so it is asked now and then.

    Args:
        model: whose buffers (batch statistics), which change in the forward pass, are kept aside.
        device: of the model.
    """

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        # Those of one type together: torch joins tensors of several types one by one.
        types = {buffer.dtype for buffer in model.buffers()}
        self._groups = [[b for b in model.buffers() if b.dtype == one] for one in types]
        self.skip = torch.zeros((), device=device)  # the type that fused optimizers expect of found_inf
        self._kept = self._flat()
        self._record: dict[str, Tensor] = {}

    def before_forward(self) -> None:
        """Keep the buffers as they are, unless a step has failed already."""
        # As one tensor: a launch for each of a deep network's buffers would cost more than the rest of the guard.
        pairs = zip(self._kept, self._flat(), strict=True)
        self._kept = [torch.where(self.skip > 0, kept, now) for kept, now in pairs]

    def check(self, terms: dict[str, Tensor], gradients: list[Tensor], step: int) -> None:
        """Look at one step before its update.

        Args:
            terms: scalars of the loss; kept for the message.
            gradients: of all trained weights.
            step: global number of the step.
        """
        norms = torch._foreach_norm(gradients)
        finite = torch.isfinite(terms["loss"]) & torch.isfinite(torch.stack(norms)).all()
        already = self.skip > 0
        now = {**terms, "step": torch.full((), float(step), device=self.skip.device)}
        self._record = {
            name: torch.where(already, self._record.get(name, value), value) for name, value in now.items()
        }
        self.skip = torch.maximum(self.skip, (~finite).to(self.skip.dtype))

    def failed(self) -> dict[str, float] | None:
        """Terms and ``step`` of the first step that was not finite; None if there was none. Waits for the device."""
        if not bool(self.skip > 0):
            return None
        return {name: float(value) for name, value in self._record.items()}

    def restore(self) -> None:
        """Put the buffers back to what they were before the step that failed."""
        for whole, group in zip(self._kept, self._groups, strict=True):
            parts = torch.split(whole, [buffer.numel() for buffer in group])
            for kept, buffer in zip(parts, group, strict=True):
                buffer.copy_(kept.view_as(buffer))

    def _flat(self) -> list[Tensor]:
        """All buffers of a type in one tensor, copied."""
        return [torch.cat([b.detach().reshape(-1) for b in group]) for group in self._groups]
