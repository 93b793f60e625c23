"""The guard: from the first step that is not finite on, nothing moves, and that step is the one reported."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from mptctl.training.optimizer.guard import Failure, NonFiniteGuard

CPU = torch.device("cpu")
NAN, INF = float("nan"), float("inf")


def terms(loss: float) -> dict[str, Tensor]:
    return {"loss": torch.tensor(loss), "ce": torch.tensor(loss)}


def test_finite_steps_pass() -> None:
    guard = NonFiniteGuard(nn.BatchNorm1d(2), CPU)
    for _ in range(3):
        guard.check(terms(1.0), {"weight": torch.ones(2)})
    assert guard.failed() is None
    assert guard.skip == 0


def test_the_first_bad_step_is_reported_and_every_later_one_is_skipped() -> None:
    guard = NonFiniteGuard(nn.BatchNorm1d(2), CPU)
    guard.check(terms(0.5), {"weight": torch.ones(2)})
    guard.check(terms(0.25), {"weight": torch.tensor([1.0, float("inf")])})
    guard.check(terms(float("nan")), {"weight": torch.ones(2)})
    guard.check(terms(0.125), {"weight": torch.ones(2)})
    failed = guard.failed()
    assert failed == Failure(1, "the gradient of weight", {"loss": 0.25, "ce": 0.25})
    assert guard.skip == 1


def test_a_loss_that_is_not_finite_is_bad_even_with_finite_gradients() -> None:
    guard = NonFiniteGuard(nn.BatchNorm1d(2), CPU)
    guard.check(terms(float("inf")), {"weight": torch.ones(2)})
    failed = guard.failed()
    assert failed is not None
    assert failed.step == 0


def test_statistics_come_back_to_what_they_were_before_the_bad_step() -> None:
    model = nn.BatchNorm1d(2)
    guard = NonFiniteGuard(model, CPU)
    guard.before_forward()
    model(torch.randn(8, 2))
    guard.check(terms(1.0), {"weight": torch.ones(2)})
    good = {name: buffer.clone() for name, buffer in model.named_buffers()}
    for _ in range(2):
        guard.before_forward()
        model(torch.full((8, 2), float("nan")))
        guard.check(terms(float("nan")), {"weight": torch.ones(2)})
    assert model.running_mean.isnan().all()
    guard.restore()
    assert good["num_batches_tracked"] == 1
    assert all(torch.equal(buffer, good[name]) for name, buffer in model.named_buffers())


def what(gradients: dict[str, list[float]], **values: float) -> str:
    guard = NonFiniteGuard(nn.BatchNorm1d(2), CPU)
    found = {name: torch.tensor(value) for name, value in gradients.items()}
    guard.check({name: torch.tensor(value) for name, value in values.items()}, found)
    guard.check(dict.fromkeys(values, torch.tensor(NAN)), {name: torch.zeros(1) for name in gradients})
    failed = guard.failed()
    assert failed is not None
    assert failed.step == 0
    return failed.what


def test_a_term_that_is_not_finite_is_named_before_what_follows_from_it() -> None:
    gradients = {"conv.weight": [NAN, 1.0], "fc.weight": [NAN]}
    assert what(gradients, loss=NAN, ce=1.0, fd_old=NAN, correct=3.0) == "the term fd_old"
    assert what(gradients, loss=INF, ce=INF, fd_old=INF) == "the term ce and the term fd_old"


def test_a_loss_whose_terms_are_finite_says_so() -> None:
    assert (
        what({"fc.weight": [1.0]}, loss=INF, ce=3e38, fd_old=3e38)
        == "the loss, while each of its terms is finite"
    )


@pytest.mark.parametrize("bad", [NAN, INF, -INF])
def test_the_weight_whose_gradient_is_not_finite_is_named(bad: float) -> None:
    gradients = {"conv.weight": [1.0, 2.0], "fc.weight": [bad, 1.0], "fc.bias": [3.0]}
    assert what(gradients, loss=4e25, ce=4e25) == "the gradient of fc.weight"
    gradients["fc.bias"] = [bad]
    assert what(gradients, loss=4e25, ce=4e25) == "the gradient of fc.weight and of 1 more of 3 weights"


def test_a_norm_that_overflows_while_every_gradient_is_finite_says_so() -> None:
    large = {"conv.weight": [1.0], "fc.weight": [3e30, -4e30]}
    said = "the square of the gradients' norm, 5e+30, while every gradient is finite"
    assert what(large, loss=4e25, ce=4e25) == said
    # An element that is not finite beside one that is too large to be squared.
    assert what({"a": [1e30], "b": [INF, 1e30]}, loss=1.0, ce=1.0) == "the gradient of b"


def test_large_gradients_whose_norm_can_be_squared_are_no_failure() -> None:
    guard = NonFiniteGuard(nn.BatchNorm1d(2), CPU)
    guard.check(terms(1.0), {"a": torch.full((3,), 1e18), "b": torch.full((3,), -1e18)})
    assert guard.failed() is None


def test_a_failure_of_another_worker_is_called_so() -> None:
    guard = NonFiniteGuard(nn.BatchNorm1d(2), CPU)
    guard.check(terms(1.0), {"a": torch.ones(3)})
    guard.skip.fill_(1.0)
    failed = guard.failed()
    assert failed is not None
    assert failed.what == "a loss on another worker"
