"""Methods on rows of two labels: each is the sum of both labels' own, by autograd, by hand, and in its counts."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from mptctl.methods import build_method
from mptctl.methods.method import COUNTS
from mptctl.names import METHOD_NAMES

OLD, CLASSES, N = 3, 5, 6
NORMALIZER = 12.0
VARIANTS: list[dict[str, Any]] = [
    *({"name": name} for name in METHOD_NAMES),
    {"name": "mpt-kl", "gate": "student-wrong"},
    *({"name": "mpt-kl", "criterion": {"name": name}} for name in ("ls", "fl", "flsd", "ecp", "mbls")),
    {"name": "mpt-lm", "margin": 0.4},
    {"name": "pct-naive", "class_weights": torch.tensor([0.5, 1.0, 2.0, 1.5, 3.0], dtype=torch.float64)},
]


def inputs() -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Logits, two labels of which each is once missing, the first one's weight, and both teachers."""
    torch.manual_seed(2)
    z, old, ref = (torch.randn(N, width, dtype=torch.float64) * 2 for width in (CLASSES, OLD, CLASSES))
    labels, others = torch.tensor([0, 1, 2, -100, 4, 0]), torch.tensor([3, 4, 0, 1, -100, 1])
    return z, labels, others, torch.rand(N, dtype=torch.float64), old, ref


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_row_of_two_labels_is_the_sum_of_both(variant: dict[str, Any]) -> None:
    """In double precision: values beside the rows of either label, the gradient by autograd and by differences."""
    method = build_method(**variant, num_old=OLD)
    z, labels, others, weight, *teachers = inputs()

    def total(leaf: Tensor) -> Tensor:
        parts = []
        for y, share in ((labels, weight), (others, 1 - weight)):
            rows = method.terms(leaf, y, *method.select_teachers(*teachers), method.settings)
            parts += [(part * share).sum() for part in rows.values()]
        return torch.stack(parts).sum() / NORMALIZER

    leaf = z.clone().requires_grad_()
    terms, grad = method.mixture_value_and_grad(z, labels, others, weight, *teachers, NORMALIZER)
    assert torch.autograd.gradcheck(total, (leaf,))
    (by_autograd,) = torch.autograd.grad(total(leaf), leaf)
    torch.testing.assert_close(grad, by_autograd, rtol=1e-9, atol=1e-12)
    assert float(terms["loss"]) == pytest.approx(float(total(z)), rel=1e-12)
    parts = [value for name, value in terms.items() if name not in ("loss", *COUNTS.values())]
    assert float(sum(parts)) == pytest.approx(float(terms["loss"]), rel=1e-12)


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_row_of_one_label_is_what_it_was(variant: dict[str, Any]) -> None:
    method = build_method(**variant, num_old=OLD)
    z, labels, _, _, *teachers = inputs()
    plain, grad = method.value_and_grad(z, labels, *teachers, NORMALIZER)
    alone = (torch.full_like(labels, -100), torch.ones(N, dtype=torch.float64))
    terms, its_grad = method.mixture_value_and_grad(z, labels, *alone, *teachers, NORMALIZER)
    assert torch.equal(grad, its_grad)
    counts = [name for name in plain if name in COUNTS.values()]
    assert [int(terms[name]) for name in counts] == [int(plain[name]) for name in counts]
    # Of twice as many rows the sum is rounded in another order.
    assert terms.keys() == plain.keys()
    for name, term in terms.items():
        assert float(term) == pytest.approx(float(plain[name]), rel=1e-14), name


@pytest.mark.parametrize("variant", [{}, {"gate": "student-wrong"}], ids=str)
def test_the_gradient_of_both_labels_is_rounded_once(variant: dict[str, Any]) -> None:
    """With softmax 1/2 each, it is w (-1/2, 1/2) + (1 - w) (1/2, -1/2); alone, both round to 1/4 in bf16."""
    small = 2.0**-12
    z = torch.zeros(1, 2, dtype=torch.bfloat16)
    method = build_method("mpt-kl", num_old=2, **variant)
    labels, others, weight = torch.tensor([0]), torch.tensor([1]), torch.tensor([0.5 + small])
    _, grad = method.mixture_value_and_grad(z, labels, others, weight, z, z, 1.0)
    assert grad.dtype == torch.bfloat16
    assert grad.tolist() == [[-small, small]]


def test_the_answer_is_right_where_it_is_one_of_the_two_labels() -> None:
    z, labels, others, weight, old, ref = inputs()
    terms, _ = build_method("mpt-kl", num_old=OLD).mixture_value_and_grad(
        z, labels, others, weight, old, ref, NORMALIZER
    )
    for whose, logits in (("student", z), ("old", old), ("ref", ref)):
        answers = logits.argmax(dim=1)
        assert int(terms[COUNTS[whose]]) == int(((answers == labels) | (answers == others)).sum())
