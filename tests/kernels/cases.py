"""Inputs that the kernel tests share, and the loss as one writes it without a kernel."""

import os
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import torch
from _pytest.mark import ParameterSet
from torch import Tensor
from torch.nn import functional as F

from mpt_kernels import MptLossOutput

Loss = Callable[..., MptLossOutput]


INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"


def beside(*values: Any) -> ParameterSet:
    """A case beside the one of its regime: Triton's interpreter, which is slow, meets it at night alone."""
    return pytest.param(*values, marks=[pytest.mark.nightly] if INTERPRETED else [])


def beside_others(test: Callable[..., None]) -> Callable[..., None]:
    """The same of a whole test."""
    return pytest.mark.nightly(test) if INTERPRETED else test


def wide_by_night(test: Callable[..., None]) -> Callable[..., None]:
    """A test of what both row kernels share: Triton's interpreter meets the one of wide rows in it at night alone."""
    if not INTERPRETED:
        return test
    rows = [False, pytest.param(True, marks=pytest.mark.nightly)]
    return pytest.mark.parametrize("wide", rows, ids=("narrow", "wide"), indirect=True)(test)


class Case(NamedTuple):
    """Arguments of `mpt_loss`; either teacher may be absent."""

    logits: Tensor
    target: Tensor
    old_logits: Tensor | None
    ref_logits: Tensor | None
    num_old: int

    def run(self, loss: Loss, **settings: Any) -> MptLossOutput:
        return loss(
            self.logits, self.target, self.old_logits, self.ref_logits, num_old=self.num_old, **settings
        )

    def to(self, *args: Any) -> "Case":
        """Logits of all models moved or cast, labels as they are."""
        return self._replace(
            logits=self.logits.to(*args),
            old_logits=None if self.old_logits is None else self.old_logits.to(*args),
            ref_logits=None if self.ref_logits is None else self.ref_logits.to(*args),
        )

    def rows(self, index: Any) -> "Case":
        return self._replace(
            logits=self.logits[index],
            target=self.target[index],
            old_logits=None if self.old_logits is None else self.old_logits[index],
            ref_logits=None if self.ref_logits is None else self.ref_logits[index],
        )


def random_case(
    n: int,
    c: int,
    num_old: int,
    *,
    device: str = "cpu",
    dtype: torch.dtype = torch.float32,
    spread: float = 3.0,
) -> Case:
    """Logits of two teachers and a student that agree in part, and a label that each model gets right sometimes."""
    common = spread * torch.randn(n, c, device=device)
    ref = common + torch.randn(n, c, device=device)
    logits = common + torch.randn(n, c, device=device)
    old = common[:, :num_old] + torch.randn(n, num_old, device=device)
    guess = logits.argmax(dim=1) if n else torch.zeros(0, dtype=torch.int64, device=device)
    other = torch.randint(0, c, (n,), device=device)
    target = torch.where(torch.rand(n, device=device) < 0.5, guess, other)
    return Case(logits, target, old, ref, num_old).to(dtype)


def eager_loss(case: Case, k: float, distance: str | None, lam: float) -> Tensor:
    """The objective as the papers' readers write it: whole tensors, everything in the logits' own type."""
    z, target, old, ref, num_old = case
    bias = torch.zeros(z.shape[1], dtype=z.dtype, device=z.device)
    bias[num_old:] = k
    total = F.cross_entropy(z + bias, target)
    for teacher in (old, ref):
        if distance is None or teacher is None or teacher.shape[1] == 0:
            continue
        weight = 1.0 + 5.0 * (teacher.argmax(dim=1) == target).to(z.dtype)
        student = z[:, : teacher.shape[1]]
        if distance == "kl":
            tempered = F.log_softmax(student / 5.0, dim=1), F.softmax(teacher / 5.0, dim=1)
            apart = F.kl_div(*tempered, reduction="none").sum(dim=1)
        else:
            apart = 0.5 * (student - teacher).square().mean(dim=1)
        total = total + lam * (weight * apart).mean()
    return total


def relative_error(value: Tensor, truth: Tensor) -> float:
    """|value - truth| / |truth|, Euclidean, in double precision."""
    difference = (value.detach().double() - truth.detach().double()).norm()
    return float(difference / truth.detach().double().norm().clamp_min(1e-300))
