"""Rows with two labels: the sum of two calls, each with the weights of its own label."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from mpt_kernels import mpt_loss, reference
from mpt_kernels.types import LossSettings
from tests.kernels.cases import Case, Loss, beside, beside_others, random_case, wide_by_night

OBJECTIVES = [
    {"distance": "kl", "k": 1.5},
    beside({"distance": "lm", "k": 1.5, "beta": 2.0}),
    beside({"distance": None, "ce_focal_weight": 1.0}),
]


def mixed_case(device: str, n: int = 6, c: int = 14) -> tuple[Case, Tensor, Tensor]:
    """Rows with a second label and a weight of the first; of two rows a label is ignored, each time another."""
    case = random_case(n, c, 6, device=device)
    other = torch.where(case.target == 0, c - 1, case.target - 1)
    other[1], case.target[4] = -100, -100
    return case, other, torch.rand(n, device=device)


def log_softmax(z: list[float]) -> list[float]:
    total = math.log(sum(map(math.exp, z)))
    return [v - total for v in z]


def test_a_mixture_by_hand(loss: Loss, device: str) -> None:
    """Two old classes and a new one; the old model says the first label, the reference the second."""
    z, old, ref, k, weight = [4.0, -3.0, 8.0], [9.0, 1.0], [3.0, 2.0, 21.0], 1.5, 0.7
    ce = [-log_softmax([z[0], z[1], z[2] + k])[label] for label in (0, 2)]
    kl = []
    for teacher in (old, ref):
        p, q = (log_softmax([v / 5 for v in part]) for part in (teacher, z[: len(teacher)]))
        kl.append(sum(math.exp(a) * (a - b) for a, b in zip(p, q, strict=True)))
    wanted = {
        "ce": weight * ce[0] + (1 - weight) * ce[1],
        "fd_old": (1 + 5 * weight) * kl[0],
        "fd_ref": (1 + 5 * (1 - weight)) * kl[1],
    }
    student, *teachers = (torch.tensor([v], device=device) for v in (z, old, ref))
    found = dict.fromkeys(wanted, 0.0)
    for label, share in ((0, weight), (2, 1 - weight)):
        out = loss(
            student, torch.tensor([label], device=device), *teachers, num_old=2, k=k,
            row_weight=torch.tensor([share], device=device),
        )  # fmt: skip
        assert float(out.loss) == pytest.approx(float(sum(out.terms.values())), rel=1e-6)
        for name, term in out.terms.items():
            found[name] += float(term)
    assert found == pytest.approx(wanted, rel=1e-5, abs=1e-6)


@beside_others
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_weight_multiplies_terms_and_gradient_of_its_row_and_no_count(
    loss: Loss, device: str, objective: dict[str, Any]
) -> None:
    case, _, weight = mixed_case(device)
    truth = case.to(torch.float64)
    rows = [
        truth.rows(slice(i, i + 1)).run(mpt_loss, backend="reference", normalizer=4.0, **objective)
        for i in range(len(weight))
    ]
    # A column of a wider tensor: weights, too, may lie apart.
    apart = torch.stack([weight, weight], 1)[:, 0]
    out = case.run(loss, normalizer=4.0, row_weight=apart, **objective)
    for name, term in out.terms.items():
        expected = sum(w * float(row.terms[name]) for w, row in zip(weight.tolist(), rows, strict=True))
        assert float(term) == pytest.approx(expected, rel=1e-5)
    expected_grad = torch.cat([row.grad for row in rows]) * weight.double().unsqueeze(1)
    torch.testing.assert_close(out.grad.double(), expected_grad, rtol=1e-5, atol=1e-7)
    counts = case.run(loss, normalizer=4.0, **objective).correct
    assert {name: int(count) for name, count in out.correct.items()} == {
        name: int(count) for name, count in counts.items()
    }


@wide_by_night
def test_a_weight_of_one_changes_no_bit(loss: Loss, device: str) -> None:
    case, _, weight = mixed_case(device)
    plain = case.run(loss, k=1.5)
    weighted = case.run(loss, k=1.5, row_weight=torch.ones_like(weight))
    assert torch.equal(plain.grad, weighted.grad)
    assert torch.equal(plain.loss, weighted.loss)


@pytest.mark.parametrize("distance", ["kl", beside("lm")])
def test_a_mixture_agrees_with_double_precision(loss: Loss, device: str, distance: str) -> None:
    case, other, weight = mixed_case(device)
    swapped = case._replace(target=other)

    def mixture(loss: Loss, dtype: torch.dtype, **how: str) -> tuple[float, Tensor]:
        first = case.to(dtype).run(loss, distance=distance, normalizer=6.0, row_weight=weight, **how)
        second = swapped.to(dtype).run(loss, distance=distance, normalizer=6.0, row_weight=1 - weight, **how)
        return float(first.loss + second.loss), (first.grad + second.grad).double()

    value, grad = mixture(loss, torch.float32)
    truth, true_grad = mixture(mpt_loss, torch.float64, backend="reference")
    assert value == pytest.approx(truth, rel=1e-5)
    torch.testing.assert_close(grad, true_grad, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("s", [LossSettings(6, k=1.5), LossSettings(6, "lm", alpha=0.5, ce_focal_weight=1.0)])
def test_the_gradient_of_a_mixture_is_that_of_its_loss(s: LossSettings) -> None:
    """In double precision, by differences and by autograd."""
    case, other, weight = mixed_case("cpu")
    case, weight = case.to(torch.float64), weight.double()
    labels = [(case.target, weight), (other, 1 - weight)]

    def total(logits: Tensor) -> Tensor:
        parts = []
        for target, share in labels:
            rows = reference.mpt_rows(logits, target, case.old_logits, case.ref_logits, s)
            parts += [row.sum() for row in reference.weigh_rows(rows.terms(), share).values()]
        return torch.stack(parts).sum()

    logits = case.logits.requires_grad_()
    assert torch.autograd.gradcheck(total, (logits,))
    (by_autograd,) = torch.autograd.grad(total(logits), logits)
    settings = {"normalizer": 1.0, **s._asdict()}
    del settings["num_old"]  # the case has it
    calls = [case._replace(target=y).run(mpt_loss, row_weight=share, **settings) for y, share in labels]
    by_call = sum(call.grad for call in calls)
    torch.testing.assert_close(by_call, by_autograd, rtol=1e-10, atol=1e-12)
