"""Computes methods of one's own, and tries out methods and criteria before a run begins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mpt_kernels.reference import mask_inputs
from mpt_kernels.types import LossSettings
from mptctl.errors import NonFiniteError, UsageError
from mptctl.methods.checked import Checked
from mptctl.names import Role
from mptctl.recipe.own import Own, describe_failure

# Rows of the random batch that a function is tried on.
TRIED_ROWS = 8


@dataclass(frozen=True)
class OwnTerms:
    """The terms of a method of one's own; ignored rows are zeros, of label 0, inside its function.

    Attributes:
        function: gives the terms of each row.
    """

    function: Checked

    def __call__(
        self,
        logits: Tensor,
        target: Tensor,
        old_logits: Tensor | None,
        ref_logits: Tensor | None,
        settings: LossSettings,
    ) -> dict[str, Tensor]:
        """Compute the terms of each row; zeros on ignored rows, differentiable in the logits."""
        masked = mask_inputs(logits, target, old_logits, ref_logits, settings)
        teachers = [None if each is None else each.logits for each in (masked.old, masked.ref)]
        terms = self.function(masked.z, masked.y, *teachers)
        if masked.valid is None:
            return dict(terms)
        return {name: rows.where(masked.valid, 0.0) for name, rows in terms.items()}


def try_out(own: Own, settings: dict[str, Any], num_classes: int, num_old: int) -> None:
    """Call the function of a method or criterion on random numbers, before anything is written.

    Raises:
        UsageError: as `Checked`.
        NonFiniteError: a term, or the gradient of the loss, is not finite.
    """
    chance = torch.Generator().manual_seed(0)
    shape = (TRIED_ROWS, num_classes)
    logits = torch.randn(shape, generator=chance, requires_grad=True)
    target = torch.arange(TRIED_ROWS) % num_classes
    old, ref = (torch.randn(TRIED_ROWS, c, generator=chance) for c in (num_old, num_classes))
    call = Checked.of(own, settings)
    what = f"{own.kind} {own.name}"
    teachers = [given if role in own.teachers else None for role, given in ((Role.OLD, old), (Role.REF, ref))]
    with torch.enable_grad():
        terms = call.terms(call(logits, target, *(teachers if own.kind == "method" else ())))
        for name, rows in terms.items():
            if not bool(rows.isfinite().all()):
                raise NonFiniteError(
                    f"{what}: {name}: is not finite on random logits of deviation 1; mend it"
                )
        try:
            (grad,) = torch.autograd.grad(torch.stack(list(terms.values())).sum(), logits)
        except RuntimeError as error:
            raise UsageError(f"{what}: its gradient: {describe_failure(error, own.file)}") from error
    if not bool(grad.isfinite().all()):
        raise NonFiniteError(f"{what}: its gradient is not finite on random logits of deviation 1; mend it")
