"""Methods that the fused loss does not compute: any criterion and any distance, differentiated by autograd."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mpt_kernels.reference import (
    biased_logits,
    compute_dtype,
    count_correct,
    invert_normalizer,
    mask_rows,
    sum_rows,
)
from mpt_kernels.types import RowLosses
from mptctl.methods.criteria import Criterion
from mptctl.methods.method import COUNTS, Method

# (N, C) logits of the student and of a teacher -> (N,), one distance per sample.
DistanceFunction = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class AutogradMethod(Method):
    """A criterion on the biased logits, and a distance to each teacher, without focal weights.

    Attributes:
        criterion: in place of the cross-entropy.
        distance: to each teacher, times its lambda.
    """

    criterion: Criterion
    distance: DistanceFunction

    def value_and_grad(
        self,
        logits: Tensor,
        target: Tensor,
        old_logits: Tensor | None = None,
        ref_logits: Tensor | None = None,
        normalizer: float | Tensor | None = None,
    ) -> tuple[dict[str, Tensor], Tensor]:
        """See `Method.value_and_grad`."""
        ignore_index = self.settings.ignore_index
        teachers = self.wanted(old_logits, ref_logits)
        leaf = logits.detach().requires_grad_()
        with torch.enable_grad():
            rows = self.rows(leaf, target, *teachers)
            loss, terms = sum_rows(rows, invert_normalizer(normalizer, target, ignore_index, rows.ce.dtype))
            (grad,) = torch.autograd.grad(loss, leaf)
        correct = count_correct(logits.detach(), target, *teachers, ignore_index)
        values = {name: term.detach() for name, term in {"loss": loss, **terms}.items()}
        return values | {COUNTS[whose]: count for whose, count in correct.items()}, grad

    def rows(
        self, logits: Tensor, target: Tensor, old_logits: Tensor | None, ref_logits: Tensor | None
    ) -> RowLosses:
        """See `Method.rows`."""
        s = self.settings
        valid = target != s.ignore_index
        z = mask_rows(logits, valid, compute_dtype(logits))
        ce = self.criterion(biased_logits(z, s.num_old, s.k), target.where(valid, 0)).where(valid, 0.0)

        def distil(student: Tensor, teacher: Tensor | None, lam: float) -> Tensor | None:
            if teacher is None or lam == 0.0:
                return None
            distance = self.distance(student, mask_rows(teacher, valid, z.dtype))
            return lam * distance.where(valid, 0.0)

        return RowLosses(
            ce, distil(z[:, : s.num_old], old_logits, s.lam_old), distil(z, ref_logits, s.lam_ref)
        )
