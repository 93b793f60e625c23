"""Methods that the fused loss does not compute: any criterion, distance and gate, by autograd."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from mpt_kernels.correct import count_correct, is_top1_correct
from mpt_kernels.reference import invert_normalizer, mpt_rows, sum_rows, weigh_rows
from mpt_kernels.types import RowLosses
from mptctl.methods.criteria import RowCriterion
from mptctl.methods.method import COUNTS, Method
from mptctl.names import Gate

# (N, C) logits of the student and of a teacher -> (N,), one distance per sample.
DistanceFunction = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class AutogradMethod(Method):
    """A method with a criterion or distance of its own; weights, bias and lambdas come from its settings.

    Attributes:
        criterion: of the biased logits, in place of the cross-entropy.
        distance: to each teacher; None: the settings' distance.
        gate: the rule that says which rows are distilled from which teacher.
    """

    criterion: RowCriterion
    distance: DistanceFunction | None = None
    gate: Gate = "none"

    def value_and_grad(
        self,
        logits: Tensor,
        target: Tensor,
        old_logits: Tensor | None = None,
        ref_logits: Tensor | None = None,
        normalizer: float | Tensor | None = None,
        row_weight: Tensor | None = None,
    ) -> tuple[dict[str, Tensor], Tensor]:
        """See `Method.value_and_grad`."""
        ignore_index = self.settings.ignore_index
        teachers = self.wanted(old_logits, ref_logits)
        leaf = logits.detach().requires_grad_()
        with torch.enable_grad():
            rows = weigh_rows(self.rows(leaf, target, *teachers), row_weight)
            loss, terms = sum_rows(rows, invert_normalizer(normalizer, target, ignore_index, rows.ce.dtype))
            (grad,) = torch.autograd.grad(loss, leaf)
        correct = count_correct(logits.detach(), target, *teachers, ignore_index)
        values = {name: term.detach() for name, term in {"loss": loss, **terms}.items()}
        return values | {COUNTS[whose]: count for whose, count in correct.items()}, grad

    def rows(
        self, logits: Tensor, target: Tensor, old_logits: Tensor | None, ref_logits: Tensor | None
    ) -> RowLosses:
        """See `Method.rows`."""
        inputs = (logits, target, old_logits, ref_logits)
        rows = mpt_rows(*inputs, self.settings, self.criterion, self.distance)
        return rows if self.gate == "none" else _gate_by_student(rows, is_top1_correct(logits, target))


def _gate_by_student(rows: RowLosses, right: Tensor) -> RowLosses:
    """Keep the old model's distance where the student is wrong, and the reference's where it is right.

    Echterhoff et al., MUSCLE (EMNLP 2024), mask tokens so; here a row is a picture.

    Args:
        rows: (N,) each.
        right: (N,) bool: the student's answer, without bias, is right.
    """
    old = None if rows.fd_old is None else rows.fd_old.where(~right, 0.0)
    ref = None if rows.fd_ref is None else rows.fd_ref.where(right, 0.0)
    return rows._replace(fd_old=old, fd_ref=ref)
