"""The guard: from the first step that is not finite on, nothing moves, and that step is the one reported."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from mptctl.training.optimizer.guard import Failure, NonFiniteGuard
from tests.common import CPU

NAN, INF = float("nan"), float("inf")


@pytest.fixture
def guard() -> NonFiniteGuard:
    return NonFiniteGuard(nn.BatchNorm1d(2), CPU)


def terms(**values: float) -> dict[str, Tensor]:
    return {name: torch.tensor(value) for name, value in values.items()}


def test_the_first_bad_step_is_reported_and_every_later_one_is_skipped(guard: NonFiniteGuard) -> None:
    guard.check(terms(loss=0.5, ce=0.5), {"weight": torch.ones(2)})
    assert (guard.failed(), guard.skip) == (None, 0)
    guard.check(terms(loss=0.25, ce=0.25), {"weight": torch.tensor([1.0, INF])})
    guard.check(terms(loss=NAN, ce=NAN), {"weight": torch.ones(2)})
    guard.check(terms(loss=0.125, ce=0.125), {"weight": torch.ones(2)})
    assert guard.failed() == Failure(1, "the gradient of weight", {"loss": 0.25, "ce": 0.25})
    assert guard.skip == 1


def test_statistics_come_back_to_what_they_were_before_the_bad_step() -> None:
    model = nn.BatchNorm1d(2)
    guard = NonFiniteGuard(model, CPU)
    guard.before_forward()
    model(torch.randn(8, 2))
    guard.check(terms(loss=1.0), {"weight": torch.ones(2)})
    good = {name: buffer.clone() for name, buffer in model.named_buffers()}
    for _ in range(2):
        guard.before_forward()
        model(torch.full((8, 2), NAN))
        guard.check(terms(loss=NAN), {"weight": torch.ones(2)})
    assert model.running_mean.isnan().all()
    guard.restore()
    assert good["num_batches_tracked"] == 1
    assert all(torch.equal(buffer, good[name]) for name, buffer in model.named_buffers())


FINITE = {"loss": 4e25, "ce": 4e25}


@pytest.mark.parametrize(
    ("gradients", "values", "said"),
    [
        # A term is named before what follows from it.
        ({"conv": [NAN, 1.0], "fc": [NAN]}, {"loss": NAN, "ce": 1.0, "fd_old": NAN, "correct": 3.0}, "the term fd_old"),
        ({"fc": [1.0]}, {"loss": INF, "ce": INF, "fd_old": INF}, "the term ce and the term fd_old"),
        ({"fc": [1.0]}, {"loss": INF, "ce": 3e38, "fd_old": 3e38}, "the loss, while each of its terms is finite"),
        ({"conv": [1.0, 2.0], "fc": [-INF, 1.0], "bias": [3.0]}, FINITE, "the gradient of fc"),
        ({"conv": [1.0], "fc": [NAN], "bias": [INF]}, FINITE, "the gradient of fc and of 1 more of 3 weights"),
        (
            {"conv": [1.0], "fc": [3e30, -4e30]},
            FINITE,
            "the square of the gradients' norm, 5e+30, while every gradient is finite",
        ),
        # An element that is not finite beside one that is too large to be squared.
        ({"a": [1e30], "b": [INF, 1e30]}, {"loss": 1.0, "ce": 1.0}, "the gradient of b"),
    ],
)  # fmt: skip
def test_what_is_not_finite_is_named(
    gradients: dict[str, list[float]], values: dict[str, float], said: str, guard: NonFiniteGuard
) -> None:
    guard.check(terms(**values), {name: torch.tensor(value) for name, value in gradients.items()})
    guard.check(terms(**dict.fromkeys(values, NAN)), {name: torch.zeros(1) for name in gradients})
    failed = guard.failed()
    assert failed is not None
    assert (failed.step, failed.what) == (0, said)


def test_large_gradients_whose_norm_can_be_squared_are_no_failure_but_one_of_another_worker_is(
    guard: NonFiniteGuard,
) -> None:
    guard.check(terms(loss=1.0), {"a": torch.full((3,), 1e18), "b": torch.full((3,), -1e18)})
    assert guard.failed() is None
    guard.skip.fill_(1.0)
    failed = guard.failed()
    assert failed is not None and failed.what == "a loss on another worker"
