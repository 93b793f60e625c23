"""Criteria: what a student's own answers cost, beside distillation. A new criterion is an entry in the table."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from mpt_kernels.reference import cross_entropy

# (N, C) logits, with the bias where a method has one, and (N,) labels 0..C-1 -> (N,), one loss per sample.
Criterion = Callable[[Tensor, Tensor], Tensor]

CRITERIA: dict[str, Criterion] = {"ce": cross_entropy}
