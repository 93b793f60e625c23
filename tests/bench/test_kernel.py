"""`bench kernel`."""

from __future__ import annotations

import pytest
import torch

from mptctl.bench.loss_timing import eager_loss, least_bytes


def test_bytes_that_must_be_moved() -> None:
    # Two rows of 6 classes, 3 old, 4 bytes each: 6 + 6 + 3 read, 6 written, a label of 8; and the loss.
    assert least_bytes(2, 6, 3, 4) == 2 * (21 * 4 + 8) + 4


def test_what_is_timed_is_the_objective_that_the_kernel_computes() -> None:
    from mptctl.methods.table import build_method

    torch.manual_seed(0)
    logits, target = torch.randn(5, 8, dtype=torch.float64), torch.randint(0, 8, (5,))
    old, ref = torch.randn(5, 4, dtype=torch.float64), torch.randn(5, 8, dtype=torch.float64)
    ours = build_method("mpt-kl", num_old=4, k=4.0)(logits, target, old_logits=old, ref_logits=ref)
    assert float(eager_loss(logits, target, old, ref)) == pytest.approx(float(ours["loss"]), rel=1e-9)
