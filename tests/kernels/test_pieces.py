"""However a batch is cut up, the pieces' gradients are the whole batch's."""

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from torch import Tensor

from mpt_kernels import mpt_loss
from tests.kernels.cases import Case, Loss, beside, random_case, relative_error, wide_by_night

EXAMPLES: dict[str, Any] = {
    "max_examples": 8,
    "deadline": None,
    "derandomize": True,
    "suppress_health_check": [HealthCheck.function_scoped_fixture],
}


def batch_with_ignored_rows(device: str, n: int = 7) -> Case:
    case = random_case(n, 14, 6, device=device)
    case.target[::3] = -100
    return case


def valid_rows(case: Case) -> Tensor:
    return (case.target != -100).sum()


@pytest.mark.parametrize(
    ("cuts", "distance"), [([3, 4], "lm"), ([1, 2, 4], "kl"), beside([3, 4], "kl"), beside([1, 2, 4], "lm")]
)
@wide_by_night
def test_accumulated_over_uneven_pieces(loss: Loss, device: str, cuts: list[int], distance: str) -> None:
    case = batch_with_ignored_rows(device)
    whole = case.run(loss, k=2.0, distance=distance)

    pieces = [
        case.rows(rows).run(loss, k=2.0, distance=distance, normalizer=valid_rows(case))
        for rows in torch.arange(7, device=device).split(cuts)
    ]

    torch.testing.assert_close(torch.cat([piece.grad for piece in pieces]), whole.grad, rtol=1e-5, atol=1e-8)
    assert float(sum(piece.loss for piece in pieces)) == pytest.approx(float(whole.loss), rel=1e-5)
    for name, count in whole.correct.items():
        assert sum(int(piece.correct[name]) for piece in pieces) == int(count)


@settings(**EXAMPLES)
@given(
    n=st.integers(1, 3),
    c=st.integers(1, 40),
    share=st.floats(0, 1),
    k=st.floats(-6, 6),
    distance=st.sampled_from(["kl", "lm", None]),
    reduction=st.sampled_from(["mean", "sum"]),
    tau=st.floats(0.5, 20),
    beta=st.floats(0, 8),
    seed=st.integers(0, 2**16),
)
def test_any_setting_agrees_with_double_precision(
    loss: Loss,
    device: str,
    n: int,
    c: int,
    share: float,
    k: float,
    distance: str | None,
    reduction: str,
    tau: float,
    beta: float,
    seed: int,
) -> None:
    torch.manual_seed(seed)
    case = random_case(n, c, int(share * c), device=device)
    objective = {"k": k, "distance": distance, "lm_reduction": reduction, "tau": tau, "beta": beta}
    truth = case.to(torch.float64).run(mpt_loss, backend="reference", **objective)
    out = case.run(loss, **objective)

    scale = float(truth.grad.abs().max())
    torch.testing.assert_close(out.grad.double(), truth.grad, rtol=0, atol=5e-6 * max(scale, 1 / n))
    assert relative_error(out.loss, truth.loss) <= 1e-5 or float(truth.loss) < 1e-3
    assert {name: int(v) for name, v in out.correct.items()} == {
        name: int(v) for name, v in truth.correct.items()
    }
