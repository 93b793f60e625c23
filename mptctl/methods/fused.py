"""Computes methods by the fused loss: cross-entropy, and distillation by KL or logit matching."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from mpt_kernels import mpt_loss
from mpt_kernels.reference import mpt_rows
from mptctl.methods.method import COUNTS, Method


@dataclass(frozen=True, kw_only=True)
class FusedMethod(Method):
    """A method that `mpt_loss` computes: values and gradient in one pass."""

    def value_and_grad(
        self,
        logits: Tensor,
        target: Tensor,
        old_logits: Tensor | None = None,
        ref_logits: Tensor | None = None,
        normalizer: float | Tensor | None = None,
        row_weight: Tensor | None = None,
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Compute loss, terms, counts and gradient by `mpt_loss`; see `Method.value_and_grad`."""
        teachers = self.select_teachers(old_logits, ref_logits)
        out = mpt_loss(
            logits,
            target,
            *teachers,
            normalizer=normalizer,
            row_weight=row_weight,
            **self.settings._asdict(),
        )
        counts = {COUNTS[whose]: count for whose, count in out.correct.items()}
        return {"loss": out.loss, **out.terms, **counts}, out.grad

    def rows(
        self, logits: Tensor, target: Tensor, old_logits: Tensor | None, ref_logits: Tensor | None
    ) -> dict[str, Tensor]:
        """Compute the terms of each row; see `Method.rows`."""
        return mpt_rows(logits, target, old_logits, ref_logits, self.settings).terms()
