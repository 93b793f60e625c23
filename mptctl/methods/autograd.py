"""Computes by autograd the methods that the fused loss does not: any criterion, distance and gate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mpt_kernels.correct import count_correct, is_top1_correct
from mpt_kernels.reference import compute_dtype, invert_normalizer, mpt_rows, sum_rows, weigh_rows
from mpt_kernels.types import RowLosses
from mptctl.methods.criteria import RowCriterion
from mptctl.methods.method import COUNTS, Method
from mptctl.names import Gate

# (N, C) logits of the student, (N, C) logits of a teacher -> (N,) distances, one a sample.
DistanceFunction = Callable[[Tensor, Tensor], Tensor]


class ByAutograd(Method):
    """A method whose gradient is that of its rows, by autograd."""

    def value_and_grad(
        self,
        logits: Tensor,
        target: Tensor,
        old_logits: Tensor | None = None,
        ref_logits: Tensor | None = None,
        normalizer: float | Tensor | None = None,
        row_weight: Tensor | None = None,
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Compute loss, terms, counts and gradient by autograd; see `Method.value_and_grad`."""
        ignore_index = self.settings.ignore_index
        teachers = self.select_teachers(old_logits, ref_logits)
        leaf = logits.detach().requires_grad_()
        with torch.enable_grad():
            rows = weigh_rows(self.rows(leaf, target, *teachers), row_weight)
            dtype = compute_dtype(logits)
            loss, terms = sum_rows(rows, invert_normalizer(normalizer, target, ignore_index, dtype))
            (grad,) = torch.autograd.grad(loss, leaf)
        correct = count_correct(logits.detach(), target, *teachers, ignore_index)
        values = {name: term.detach() for name, term in {"loss": loss, **terms}.items()}
        return values | {COUNTS[whose]: count for whose, count in correct.items()}, grad


@dataclass(frozen=True, kw_only=True)
class AutogradMethod(ByAutograd):
    """A method with its own criterion, distance or gate; focal weights, bias and lambdas are its settings'.

    Attributes:
        criterion: loss of the biased logits, in place of the cross-entropy.
        distance: distance to each teacher; None: the settings' distance.
        gate: rule that selects the rows to be distilled from each teacher.
    """

    criterion: RowCriterion
    distance: DistanceFunction | None = None
    gate: Gate = "none"

    def rows(
        self, logits: Tensor, target: Tensor, old_logits: Tensor | None, ref_logits: Tensor | None
    ) -> dict[str, Tensor]:
        """Compute the terms of each row with the method's criterion, distance and gate; see `Method.rows`."""
        inputs = (logits, target, old_logits, ref_logits)
        rows = mpt_rows(*inputs, self.settings, self.criterion, self.distance)
        if self.gate != "none":
            rows = _gate_by_student(rows, is_top1_correct(logits, target))
        return rows.terms()


def _gate_by_student(rows: RowLosses, right: Tensor) -> RowLosses:
    """Keep the distance to the old model where the student is wrong, to the reference where it is right.

    Echterhoff et al., MUSCLE (EMNLP 2024), mask tokens by this rule; here a row is a picture.

    Args:
        rows: terms of the loss, (N,) each.
        right: (N,) bool: whether the student's prediction, without bias, is right.

    Returns:
        The rows, with distances of 0 where they are not kept.
    """
    old = None if rows.fd_old is None else rows.fd_old.where(~right, 0.0)
    ref = None if rows.fd_ref is None else rows.fd_ref.where(right, 0.0)
    return rows._replace(fd_old=old, fd_ref=ref)
