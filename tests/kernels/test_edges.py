"""Small cases worked out by hand, and what happens at the edges, for every backend alike."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from mpt_kernels import mpt_loss
from mpt_kernels.triton_parts import LOG2E, LOWEST
from tests.kernels.cases import Case, Loss, random_case, relative_error, wide_by_night

INF = math.inf


def tensor(device: str, *rows: list[float]) -> Tensor:
    return torch.tensor(rows, dtype=torch.float32, device=device)


def labels(device: str, *values: int) -> Tensor:
    return torch.tensor(values, dtype=torch.int64, device=device)


def log(*values: float) -> list[float]:
    return [math.log(value) for value in values]


def test_biased_cross_entropy_by_hand(loss: Loss, device: str) -> None:
    # Two old classes and a new one, biased by log 2: odds 1 : 2 : 3 become 1 : 2 : 6, so p = 1/9, 2/9, 6/9.
    out = loss(tensor(device, log(1, 2, 3)), labels(device, 2), num_old=2, k=math.log(2), distance=None)

    assert float(out.loss) == pytest.approx(math.log(9 / 6), rel=5e-6)
    assert out.grad.tolist()[0] == pytest.approx([1 / 9, 2 / 9, -3 / 9], rel=5e-6)
    assert list(out.terms) == ["ce"]
    # Without bias the answer is class 2; the bias must not make it class 2 where it is not.
    assert int(out.correct["student"]) == 1
    unbiased = loss(tensor(device, log(1, 3, 2)), labels(device, 2), num_old=2, k=math.log(2), distance=None)
    assert int(unbiased.correct["student"]) == 0


def test_kl_distillation_by_hand(loss: Loss, device: str) -> None:
    # tau = 2 halves the logarithms. Old: teacher 1 : 1, student 1 : 3. Ref: teacher 1 : 1 : 2, student 1 : 3 : 4.
    logits, old, ref = tensor(device, log(1, 9, 16)), tensor(device, log(1, 1)), tensor(device, log(1, 1, 4))
    # The old model ties and its first maximum is the label: weight 1 + 5. The reference says 2: weight 1.
    out = loss(logits, labels(device, 0), old, ref, num_old=2, tau=2.0, lam_old=0.5, lam_ref=2.0)

    kl_old = 0.5 * math.log(0.5 / 0.25) + 0.5 * math.log(0.5 / 0.75)
    kl_ref = 0.25 * math.log(0.25 / 0.125) + 0.25 * math.log(0.25 / 0.375) + 0.5 * math.log(0.5 / 0.5)
    assert float(out.terms["ce"]) == pytest.approx(math.log(26), rel=5e-6)
    assert float(out.terms["fd_old"]) == pytest.approx(0.5 * 6 * kl_old, rel=1e-5)
    assert float(out.terms["fd_ref"]) == pytest.approx(2.0 * 1 * kl_ref, rel=1e-5)
    assert float(out.loss) == pytest.approx(sum(map(float, out.terms.values())), rel=5e-6)
    # w (q_s - q_t) / tau: old 0.5 * 6 * (-1/4, 1/4) / 2; ref 2 * (-1/8, 1/8, 0) / 2.
    expected = [1 / 26 - 1 - 0.375 - 0.125, 9 / 26 + 0.375 + 0.125, 16 / 26]
    assert out.grad.tolist()[0] == pytest.approx(expected, rel=1e-5)
    assert {name: int(count) for name, count in out.correct.items()} == {"student": 0, "old": 1, "ref": 0}
    times_tau = loss(logits, labels(device, 0), old, ref, num_old=2, tau=2.0, tau_squared=True, lam=1.0)
    assert float(times_tau.terms["fd_old"]) == pytest.approx(4 * 6 * kl_old, rel=1e-5)


@pytest.mark.parametrize(("reduction", "old_share", "ref_share"), [("mean", 1 / 2, 1 / 3), ("sum", 1.0, 1.0)])
def test_logit_matching_by_hand(
    loss: Loss, device: str, reduction: Any, old_share: float, ref_share: float
) -> None:
    logits, old, ref = tensor(device, [0, 0, 0]), tensor(device, [2, 1]), tensor(device, [1, 0, 3])
    # Old right: weight 1 + 5; ref wrong: 1. Halved squares: old (4 + 1) / 2, ref (1 + 9) / 2.
    out = loss(logits, labels(device, 0), old, ref, num_old=2, distance="lm", lm_reduction=reduction, lam=0.4)

    assert float(out.terms["fd_old"]) == pytest.approx(0.4 * 6 * 2.5 * old_share, rel=5e-6)
    assert float(out.terms["fd_ref"]) == pytest.approx(0.4 * 1 * 5.0 * ref_share, rel=5e-6)
    a, b = 0.4 * 6 * old_share, 0.4 * ref_share
    expected = [1 / 3 - 1 - 2 * a - b, 1 / 3 - a, 1 / 3 - 3 * b]
    assert out.grad.tolist()[0] == pytest.approx(expected, rel=1e-5, abs=1e-7)


def test_the_naive_method_weights_the_cross_entropy_of_what_the_old_model_gets_right(
    loss: Loss, device: str
) -> None:
    logits, old = tensor(device, [0, 0, 0], [0, 0, 0]), tensor(device, [1, 0], [1, 0])
    out = loss(logits, labels(device, 0, 1), old, num_old=2, distance=None, ce_focal_weight=1.0)

    assert float(out.loss) == pytest.approx((2 + 1) * math.log(3) / 2, rel=5e-6)
    assert out.grad[0].tolist() == pytest.approx([-2 / 3, 1 / 3, 1 / 3], rel=1e-5)
    assert list(out.terms) == ["ce"]


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_the_first_maximum_wins_for_student_and_teachers(loss: Loss, device: str, dtype: torch.dtype) -> None:
    # In bfloat16 the last row's 1.001 rounds to 1: a tie that was none.
    rows = tensor(device, [1, 1, 0], [1, 1, 0], [0, 2, 2], [1, 1.001, 0]).to(dtype)
    out = loss(rows, labels(device, 0, 1, 2, 1), rows[:, :2], rows, num_old=2)

    student = 1 if dtype == torch.bfloat16 else 2
    assert {name: int(count) for name, count in out.correct.items()} == {
        "student": student,
        "old": student,
        "ref": student,
    }


@wide_by_night
def test_the_old_model_is_never_right_about_a_new_class(loss: Loss, device: str) -> None:
    case = random_case(6, 10, 4, device=device)
    new = case._replace(target=torch.arange(4, 10, device=device))
    out = new.run(loss)

    assert int(out.correct["old"]) == 0
    # So every row has weight alpha: beta does not matter.
    assert float(new.run(loss, beta=50.0).terms["fd_old"]) == float(out.terms["fd_old"])


@pytest.mark.parametrize("num_old", [0, 1, 9])
def test_no_one_and_all_classes_old(loss: Loss, device: str, num_old: int) -> None:
    case = random_case(5, 9, num_old, device=device)
    truth = case.to(torch.float64).run(mpt_loss, k=2.0, backend="reference")
    out = case.run(loss, k=2.0)

    assert list(out.terms) == ["ce", "fd_old", "fd_ref"]
    assert relative_error(out.grad, truth.grad) <= 5e-6
    assert (float(out.terms["fd_old"]) == 0.0) == (num_old <= 1)
    if num_old == 9:
        assert float(out.loss) == float(case.run(loss, k=-7.0).loss)


@wide_by_night
def test_a_class_that_the_student_rules_out_gets_no_probability_and_no_gradient(
    loss: Loss, device: str
) -> None:
    full = random_case(4, 8, 5, device=device)
    target = full.target.clamp_max(6)
    ruled_out = full.logits.clone()
    ruled_out[:, 7] = -INF
    # The teacher gives class 7 no probability either, so it counts nowhere.
    ref = full.ref_logits.clone()
    ref[:, 7] = -INF
    out = loss(ruled_out, target, full.old_logits, ref, num_old=5, k=1.0)
    without = loss(full.logits[:, :7], target, full.old_logits, ref[:, :7], num_old=5, k=1.0)

    assert torch.equal(out.grad[:, 7], torch.zeros(4, device=device))
    torch.testing.assert_close(out.grad[:, :7], without.grad, rtol=1e-5, atol=1e-7)
    assert float(out.loss) == pytest.approx(float(without.loss), rel=5e-6)


@pytest.mark.parametrize("c", [40, 2500])
def test_classes_ruled_out_in_one_row_count_nowhere_and_leave_other_rows_as_they_are(
    loss: Loss, device: str, c: int
) -> None:
    # So many classes that most lie in tiles of the kernel that hold nothing else, which have no guard of their own.
    num_old = c // 2
    case = random_case(3, c, num_old, device=device)
    before = case.run(loss)
    case.target[1:] = 0
    for model in (case.logits, case.old_logits, case.ref_logits):
        model[1, [3, model.shape[1] // 2, model.shape[1] - 1]] = -INF
        # What is nothing beside a teacher's other classes, and ruled out by the student.
        model[2, [5, model.shape[1] - 2]] = -INF if model is case.logits else -1e4
    out = case.run(loss)

    truth = case.to(torch.float64).run(mpt_loss, backend="reference")
    for name, term in truth.terms.items():
        assert float(out.terms[name]) == pytest.approx(float(term), rel=2e-5), name
    assert relative_error(out.grad, truth.grad) <= 5e-6
    assert torch.equal(out.grad[0], before.grad[0])
    assert not out.grad[1, [3, c // 2, c - 1]].any()


def test_where_only_the_student_rules_a_class_out_the_distance_is_infinite(loss: Loss, device: str) -> None:
    logits, ref, y = tensor(device, [0, 1, -INF]), tensor(device, [0, 1, 2]), labels(device, 0)
    kl = loss(logits, y, None, ref, num_old=0)
    assert float(kl.terms["fd_ref"]) == INF
    assert torch.isfinite(kl.grad).all()
    lm = loss(logits, y, None, ref, num_old=0, distance="lm")
    assert float(lm.terms["fd_ref"]) == INF
    both = loss(logits, y, None, logits, num_old=0, distance="lm")
    assert float(both.terms["fd_ref"]) == 0.0


def test_a_label_that_the_student_rules_out_costs_infinitely_much(loss: Loss, device: str) -> None:
    out = loss(tensor(device, [0, -INF, 0]), labels(device, 1), num_old=3, distance=None)
    assert float(out.loss) == INF
    assert out.grad.tolist()[0] == pytest.approx([0.5, -1.0, 0.5], rel=5e-6)


def test_nan_is_seen_and_is_never_right(loss: Loss, device: str) -> None:
    nan = math.nan
    logits = tensor(device, [5, nan, 0], [5, 0, 0])
    out = loss(logits, labels(device, 0, 0), logits[:, :2], logits, num_old=2)
    assert math.isnan(float(out.loss))
    assert torch.isnan(out.grad[0]).all()
    assert {name: int(count) for name, count in out.correct.items()} == {"student": 1, "old": 1, "ref": 1}


def test_ignored_rows_add_nothing_whatever_they_hold(loss: Loss, device: str) -> None:
    case = random_case(6, 12, 5, device=device)
    kept = torch.tensor([0, 2, 5], device=device)
    for tensor_ in (case.logits, case.old_logits, case.ref_logits):
        tensor_[1], tensor_[3], tensor_[4] = math.nan, INF, -INF
    case.target[[1, 3, 4]] = -7
    out = case.run(loss, ignore_index=-7)
    alone = case.rows(kept).run(loss)

    assert float(out.loss) == pytest.approx(float(alone.loss), rel=5e-6)
    torch.testing.assert_close(out.grad[kept], alone.grad, rtol=1e-6, atol=0)
    assert torch.equal(out.grad[[1, 3, 4]], torch.zeros(3, 12, device=device))
    assert {k: int(v) for k, v in out.correct.items()} == {k: int(v) for k, v in alone.correct.items()}


@pytest.mark.parametrize(("n", "normalizer"), [(0, None), (3, None), (3, 0.0)])
def test_without_a_valid_row_and_with_a_normaliser_of_zero_the_loss_is_zero(
    loss: Loss, device: str, n: int, normalizer: float | None
) -> None:
    case = random_case(n, 5, 2, device=device)
    if normalizer is None:
        case.target.fill_(-100)
    out = case.run(loss, normalizer=normalizer)

    assert float(out.loss) == 0.0
    assert torch.equal(out.grad, torch.zeros(n, 5, device=device))
    assert normalizer is not None or [int(count) for count in out.correct.values()] == [0, 0, 0]


@wide_by_night
def test_k_of_each_row(loss: Loss, device: str) -> None:
    case = random_case(3, 9, 4, device=device)
    k = torch.tensor([0.0, 1.5, 4.0], device=device)
    out = case.run(loss, k=k)
    for i, own in enumerate(k.tolist()):
        alone = case.rows([i]).run(loss, k=own)
        torch.testing.assert_close(out.grad[i] * 3, alone.grad[0], rtol=1e-5, atol=1e-7)
    one = torch.tensor(1.5, device=device)
    assert float(case.run(loss, k=one).loss) == pytest.approx(float(case.run(loss, k=1.5).loss), rel=5e-6)


@wide_by_night
def test_normaliser_and_scale_may_be_numbers_or_scalars_on_the_device(loss: Loss, device: str) -> None:
    case = random_case(4, 9, 4, device=device)
    plain = case.run(loss)
    number = case.run(loss, normalizer=8, grad_scale=1024.0)
    scalar = case.run(
        loss, normalizer=torch.tensor(8, device=device), grad_scale=torch.tensor(1024.0, device=device)
    )

    torch.testing.assert_close(number.grad, scalar.grad, rtol=1e-6, atol=0)
    torch.testing.assert_close(number.loss, scalar.loss, rtol=1e-6, atol=0)
    assert float(number.loss) == pytest.approx(float(plain.loss) / 2, rel=5e-6)
    torch.testing.assert_close(number.grad, plain.grad * 512, rtol=1e-6, atol=0)


def test_the_scale_is_applied_before_rounding(loss: Loss, device: str) -> None:
    # exp(-16) is 1.1e-7: a hundredth of it is nothing in float16, and 1,000 of it is not.
    logits = tensor(device, [16, 0]).half()
    small = loss(logits, labels(device, 0), num_old=2, distance=None, normalizer=100.0)
    large = loss(logits, labels(device, 0), num_old=2, distance=None, normalizer=100.0, grad_scale=1e5)
    assert float(small.grad[0, 1]) == 0.0
    assert float(large.grad[0, 1]) == pytest.approx(1000 * math.exp(-16), rel=2e-3)


def strided(case: Case, how: str) -> Case:
    logits, old, ref = case.logits, case.old_logits, case.ref_logits
    if how == "transposed":
        return case._replace(
            logits=logits.t().contiguous().t(), old_logits=old.t().contiguous().t(), target=case.target
        )
    if how == "padded":
        wide = torch.full((logits.shape[0], 16 * (logits.shape[1] // 16 + 1)), math.nan, device=logits.device)
        views = []
        for x in (logits, old, ref):
            room = wide.clone()
            room[:, : x.shape[1]] = x
            views.append(room[:, : x.shape[1]])
        return case._replace(logits=views[0], old_logits=views[1], ref_logits=views[2])
    if how == "sliced":
        both = torch.cat([logits, ref], dim=1)
        doubled = torch.stack([case.target, case.target], dim=1).reshape(-1)[::2]
        return case._replace(
            logits=both[:, : logits.shape[1]], ref_logits=both[:, logits.shape[1] :], target=doubled
        )
    return case._replace(target=case.target.int(), ref_logits=ref[:1].expand_as(ref))


@pytest.mark.parametrize("how", ["transposed", "padded", "sliced", "int32 and expanded"])
def test_strides_do_not_matter(loss: Loss, device: str, how: str) -> None:
    case = strided(random_case(2, 37, 11, device=device), how)
    packed = Case(
        case.logits.contiguous(),
        case.target.long().contiguous(),
        None if case.old_logits is None else case.old_logits.contiguous(),
        None if case.ref_logits is None else case.ref_logits.contiguous(),
        case.num_old,
    )
    before = case.logits.clone()
    out, expected = case.run(loss, k=2.0), packed.run(loss, k=2.0)

    torch.testing.assert_close(out.grad, expected.grad, rtol=1e-5, atol=1e-8)
    assert float(out.loss) == pytest.approx(float(expected.loss), rel=5e-6)
    assert out.grad.shape == before.shape
    assert torch.equal(case.logits, before)


def test_lambda_zero_turns_a_teacher_off_but_counts_it(loss: Loss, device: str) -> None:
    case = random_case(4, 9, 4, device=device)
    case.ref_logits[:, 3] = INF
    out = case.run(loss, lam_ref=0.0)
    assert list(out.terms) == ["ce", "fd_old"]
    assert torch.isfinite(out.grad).all()
    assert set(out.correct) == {"student", "old", "ref"}


def test_a_label_outside_the_classes(loss: Loss, device: str, backend: str) -> None:
    logits = tensor(device, [0, 0, 0], [0, 0, 0])
    for bad in (3, -1):
        if device == "cpu":
            with pytest.raises(ValueError, match=f"target {bad} lies outside 0..2"):
                loss(logits, labels(device, 0, bad), num_old=2)
            continue
        out = loss(logits, labels(device, 0, bad), num_old=2)
        assert math.isnan(float(out.loss))
        assert torch.isfinite(out.grad[0]).all()
        assert torch.isnan(out.grad[1]).all()


@pytest.mark.parametrize("tau", [1.0, 1.5, 2.0, 3.0, 5.0, 20.0])
def test_a_product_with_the_maximum_of_no_logits_is_exact(tau: float) -> None:
    """On a GPU a rounded product less the exact one was some 1e28, and two to its power made the loss NaN."""
    factor = np.float32(LOG2E.value / tau)
    rounded = np.float32(LOWEST.value) * factor
    assert float(rounded) == float(np.float32(LOWEST.value)) * float(factor)
