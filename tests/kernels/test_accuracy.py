"""No backend errs more against double precision than the plain PyTorch expression does in the same type."""

from collections.abc import Callable

import pytest
import torch

from mpt_kernels import mpt_loss
from tests.kernels.cases import Case, Loss, beside, eager_loss, random_case, relative_error

# Beyond the eager error: rounding the result to the type once. Triton's interpreter adds a row up in order, not as a
# tree, and truncates bfloat16 instead of rounding it: a whole unit in the last place.
TOLERANCE = {torch.float32: 5e-6, torch.float16: 1e-3, torch.bfloat16: 2.0**-7}
# One per regime: less than a warp, odd, a few vectors, more classes than one tile of the wide kernel.
SHAPES = [
    (2, 2, 1), (2, 37, 10), (3, 100, 50), (1, 2501, 1),
    beside(1, 1, 1), beside(3, 100, 0), beside(3, 100, 100), beside(2, 1000, 501), beside(5, 37, 10),
]  # fmt: skip


@pytest.mark.parametrize(
    ("dtype", "distance"),
    [
        (torch.float32, "kl"),
        (torch.float32, "lm"),
        (torch.float16, "lm"),
        (torch.bfloat16, "kl"),
        beside(torch.float32, None),
        beside(torch.float16, "kl"),
        beside(torch.bfloat16, "lm"),
    ],
    ids=str,
)
@pytest.mark.parametrize(("n", "c", "num_old"), SHAPES)
def test_error_is_at_most_that_of_the_eager_expression(
    loss: Loss, device: str, n: int, c: int, num_old: int, dtype: torch.dtype, distance: str | None
) -> None:
    lam = 0.4 if distance == "lm" else 1.0
    case = random_case(n, c, num_old, device=device, dtype=dtype)
    truth = case.to(torch.float64).run(mpt_loss, k=1.5, distance=distance, lam=lam, backend="reference")
    logits = case.logits.requires_grad_()
    eager = eager_loss(case, 1.5, distance, lam)
    eager.backward()

    out = case.run(loss, k=1.5, distance=distance, lam=lam)

    assert out.grad.dtype == dtype
    assert out.grad.shape == (n, c)
    floor = TOLERANCE[dtype]
    assert relative_error(out.grad, truth.grad) <= relative_error(logits.grad, truth.grad) + floor
    # The loss itself is never rounded to half precision.
    assert relative_error(out.loss, truth.loss) <= min(relative_error(eager, truth.loss), 1e-6) + 5e-6
    assert {name: int(count) for name, count in out.correct.items()} == {
        name: int(count) for name, count in truth.correct.items()
    }
    for name, term in truth.terms.items():
        assert float(out.terms[name]) == pytest.approx(float(term), rel=5e-6, abs=2e-6)


def of_other_types(device: str) -> Case:
    case = random_case(5, 40, 24, device=device)
    return case._replace(old_logits=case.old_logits.bfloat16(), ref_logits=case.ref_logits.half())


ODD: dict[str, tuple[Callable[[str], Case], float]] = {
    "22 thousand classes": (lambda device: random_case(2, 21_841, 10_920, device=device), 5e-6),
    "teachers of other types": (of_other_types, 5e-6),
    "logits of ten thousand": (lambda device: random_case(3, 30, 13, device=device, spread=1e4), 1e-5),
}


@pytest.mark.parametrize(
    ("odd", "distance"),
    [
        *((name, "kl") for name in ODD),
        beside("22 thousand classes", "lm"),
        beside("logits of ten thousand", "lm"),
    ],
)
def test_odd_sizes_and_types(loss: Loss, device: str, odd: str, distance: str) -> None:
    make, tolerance = ODD[odd]
    case = make(device)
    truth = case.to(torch.float64).run(mpt_loss, distance=distance, backend="reference")
    out = case.run(loss, distance=distance)
    assert out.grad.dtype == torch.float32
    assert torch.isfinite(out.grad).all()
    assert relative_error(out.grad, truth.grad) <= tolerance
    assert relative_error(out.loss, truth.loss) <= tolerance


def test_a_large_common_offset_costs_no_more_than_it_costs_eagerly(loss: Loss, device: str) -> None:
    case = random_case(3, 30, 13, device=device)
    case = case._replace(logits=(case.logits + 1e4), ref_logits=(case.ref_logits - 1e4))
    truth = case.to(torch.float64).run(mpt_loss, backend="reference")
    eager = eager_loss(case, 0.0, "kl", 1.0)

    out = case.run(loss)

    assert relative_error(out.loss, truth.loss) <= relative_error(eager, truth.loss) + 2e-4
    assert relative_error(out.grad, truth.grad) <= 2e-3


def test_two_runs_give_the_same_bits(loss: Loss, device: str) -> None:
    case = random_case(3, 100, 50, device=device)
    first, second = case.run(loss), case.run(loss)
    assert torch.equal(first.grad, second.grad)
    assert torch.equal(first.loss, second.loss)
