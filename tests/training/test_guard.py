"""The guard: from the first step that is not finite on, nothing moves, and that step is the one reported."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mptctl.training.guard import NonFiniteGuard

CPU = torch.device("cpu")


def terms(loss: float) -> dict[str, Tensor]:
    return {"loss": torch.tensor(loss), "ce": torch.tensor(loss)}


def test_finite_steps_pass() -> None:
    guard = NonFiniteGuard(nn.BatchNorm1d(2), CPU)
    for step in range(3):
        guard.check(terms(1.0), [torch.ones(2)], step)
    assert guard.failed() is None
    assert guard.skip == 0


def test_the_first_bad_step_is_reported_and_every_later_one_is_skipped() -> None:
    guard = NonFiniteGuard(nn.BatchNorm1d(2), CPU)
    guard.check(terms(0.5), [torch.ones(2)], 0)
    guard.check(terms(0.25), [torch.tensor([1.0, float("inf")])], 1)
    guard.check(terms(float("nan")), [torch.ones(2)], 2)
    guard.check(terms(0.125), [torch.ones(2)], 3)
    failed = guard.failed()
    assert failed == {"loss": 0.25, "ce": 0.25, "step": 1.0}
    assert guard.skip == 1


def test_a_loss_that_is_not_finite_is_bad_even_with_finite_gradients() -> None:
    guard = NonFiniteGuard(nn.BatchNorm1d(2), CPU)
    guard.check(terms(float("inf")), [torch.ones(2)], 4)
    failed = guard.failed()
    assert failed is not None
    assert failed["step"] == 4


def test_statistics_come_back_to_what_they_were_before_the_bad_step() -> None:
    model = nn.BatchNorm1d(2)
    guard = NonFiniteGuard(model, CPU)
    guard.before_forward()
    model(torch.randn(8, 2))
    guard.check(terms(1.0), [torch.ones(2)], 0)
    good = {name: buffer.clone() for name, buffer in model.named_buffers()}
    for step in (1, 2):
        guard.before_forward()
        model(torch.full((8, 2), float("nan")))
        guard.check(terms(float("nan")), [torch.ones(2)], step)
    assert model.running_mean.isnan().all()
    guard.restore()
    assert good["num_batches_tracked"] == 1
    assert all(torch.equal(buffer, good[name]) for name, buffer in model.named_buffers())
