"""The specification itself: its two halves agree, it differentiates, and it is said plainly when it is misused."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from mpt_kernels import MPTLoss, backend_for, mpt_loss, reference
from mpt_kernels.types import LossSettings
from tests.kernels.cases import random_case

SETTINGS = [
    LossSettings(num_old=4),
    LossSettings(num_old=4, tau=2.0, tau_squared=True, lam_old=0.3, lam_ref=0.7),
    LossSettings(num_old=4, distance="lm"),
    LossSettings(num_old=4, distance="lm", lm_reduction="sum", alpha=0.5, beta=2.0),
    LossSettings(num_old=4, distance=None, ce_focal_weight=1.0),
    LossSettings(num_old=0),
    LossSettings(num_old=7),
]


@pytest.mark.parametrize("s", SETTINGS, ids=str)
def test_values_and_gradient_agree(s: LossSettings) -> None:
    case, s = random_case(6, 7, s.num_old, dtype=torch.float64), s._replace(k=1.5)
    case.target[2] = -100

    def total(logits: Tensor) -> Tensor:
        rows = reference.mpt_rows(logits, case.target, case.old_logits, case.ref_logits, s)
        return torch.stack([row.sum() for row in rows if row is not None]).sum()

    logits = case.logits.requires_grad_()
    assert torch.autograd.gradcheck(total, (logits,))
    (by_autograd,) = torch.autograd.grad(total(logits), logits)
    by_hand = reference.mpt_gradient(logits.detach(), case.target, case.old_logits, case.ref_logits, s)
    torch.testing.assert_close(by_hand, by_autograd, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("distance", ["kl", "lm"])
def test_autograd_through_infinite_logits_leaves_no_nan(distance: Any) -> None:
    logits = torch.tensor([[0.0, 1.0, -torch.inf]], requires_grad=True)
    teacher = torch.tensor([[1.0, 0.0, -torch.inf]])
    s = LossSettings(num_old=0, distance=distance)
    rows = reference.mpt_rows(logits, torch.tensor([0]), None, teacher, s)
    (grad,) = torch.autograd.grad((rows.ce + rows.fd_ref).sum(), logits)
    by_hand = reference.mpt_gradient(logits.detach(), torch.tensor([0]), None, teacher, s)
    torch.testing.assert_close(grad, by_hand)
    assert float(grad[0, 2]) == 0.0


def test_the_functions_for_one_part_are_pytorchs_where_pytorch_has_them() -> None:
    case = random_case(6, 7, 4, dtype=torch.float64)
    torch.testing.assert_close(
        reference.cross_entropy(case.logits, case.target),
        F.cross_entropy(case.logits, case.target, reduction="none"),
    )
    kl = F.kl_div(F.log_softmax(case.logits / 5, 1), F.softmax(case.ref_logits / 5, 1), reduction="none")
    torch.testing.assert_close(reference.kl_distance(case.logits, case.ref_logits), kl.sum(1))
    torch.testing.assert_close(
        reference.lm_distance(case.logits, case.ref_logits),
        0.5 * F.mse_loss(case.logits, case.ref_logits, reduction="none").mean(1),
    )


def test_weights_of_another_shape_than_the_losses_are_refused() -> None:
    with pytest.raises(ValueError, match=r"weights \(3, 1\) and losses \(3,\) differ in shape"):
        reference._weigh(torch.ones(3, 1), torch.ones(3))


def test_logits_are_never_written_to() -> None:
    case = random_case(5, 7, 4)
    copies = [x.clone() for x in case[:4] if isinstance(x, Tensor)]
    case.run(mpt_loss, k=3.0)
    for before, after in zip(copies, case[:4], strict=True):
        assert torch.equal(before, after)


@pytest.mark.parametrize("distance", ["kl", "lm", None])
def test_the_criterion_backpropagates_what_mpt_loss_returns(distance: Any) -> None:
    case = random_case(5, 7, 4)
    case.target[1] = -100
    weight = None if distance is None else torch.rand(5)
    plain = case.run(mpt_loss, k=2.0, distance=distance, row_weight=weight)
    criterion = MPTLoss(num_old=4, k=2.0, distance=distance)
    logits = case.logits.requires_grad_()
    out = criterion(logits, case.target, case.old_logits, case.ref_logits, row_weight=weight)
    (out.loss * 3).backward()

    assert out.loss.item() == pytest.approx(float(plain.loss), rel=1e-6)
    torch.testing.assert_close(logits.grad, 3 * plain.grad, rtol=1e-5, atol=1e-8)
    assert "num_old=4" in repr(criterion)


def test_a_loss_scaler_saves_small_half_precision_gradients() -> None:
    # exp(-10) / 100 is 7.6 of the smallest steps that float16 has: 5 % would be lost.
    logits = torch.tensor([[10.0, 0.0]], dtype=torch.float16, requires_grad=True)
    loss = MPTLoss(num_old=2, distance=None)(logits, torch.tensor([0]), normalizer=100.0).loss
    (loss * 1e5).backward()
    assert float(logits.grad[0, 1]) == pytest.approx(1000 * math.exp(-10), rel=2e-3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_old": 8}, r"num_old must lie in 0\.\.7"),
        ({"old_logits": torch.zeros(5, 3)}, r"old_logits must be a float \(5, 4\)"),
        ({"ref_logits": torch.zeros(5, 7, dtype=torch.int64)}, r"ref_logits must be a float \(5, 7\)"),
        ({"target": torch.zeros(5)}, r"target must be int64 or int32 \(5,\)"),
        ({"target": torch.zeros(4, dtype=torch.int64)}, r"target must be int64 or int32 \(5,\)"),
        ({"logits": torch.zeros(5)}, r"logits must be a float \(N, C\)"),
        ({"k": torch.zeros(3)}, r"k must be a number or one per row"),
        ({"distance": "l2"}, r"distance 'l2' is unknown; choose kl, lm or None"),
        ({"lm_reduction": "none"}, "lm_reduction 'none' is unknown"),
        ({"tau": 0.0}, "tau must be positive"),
        ({"ce_focal_weight": 1.0, "old_logits": None}, "ce_focal_weight needs old_logits"),
        ({"normalizer": torch.ones(2)}, "normalizer must be a number or one value"),
        ({"backend": "cuda"}, "backend 'cuda' is unknown"),
        ({"ref_logits": torch.zeros(5, 7, device="meta")}, "ref_logits is on meta, the logits are on cpu"),
        ({"row_weight": torch.ones(5, 1)}, r"row_weight must be one per row \(5,\), not \(5, 1\)"),
        ({"row_weight": torch.ones(5, device="meta")}, "row_weight is on meta, the logits are on cpu"),
    ],
)
def test_what_does_not_fit_is_refused(change: dict[str, Any], message: str) -> None:
    case = random_case(5, 7, 4)
    with pytest.raises(ValueError, match=message):
        mpt_loss(**(case._asdict() | change))


def test_which_backend() -> None:
    logits = torch.zeros(1, 2)
    assert backend_for(logits) == "reference"
    assert backend_for(logits, "reference") == "reference"
    with pytest.raises(ValueError, match=r"not torch\.float64"):
        backend_for(logits.double(), "triton")


@pytest.mark.parametrize(("settings", "said"), [({"num_old": 1, "kk": 1}, "'kk'"), ({}, "'num_old'")])
def test_the_module_refuses_wrong_settings_when_it_is_made(settings: dict[str, int], said: str) -> None:
    with pytest.raises(TypeError, match=said):
        MPTLoss(**settings)
