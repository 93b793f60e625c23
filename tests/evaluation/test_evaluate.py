"""The comparison: a table counted by hand, the published numbers, and what must hold for any table."""

from __future__ import annotations

from pathlib import Path
from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta

from mptctl.evaluation.evaluate import ComparisonRequest, compare
from mptctl.evaluation.reading.predictions import Predictions, build_predictions
from tests.evaluation.made_up import answers

GOLDEN = Path(__file__).parent.parent / "golden"


def exact_by_formula(k: int, n: int) -> tuple[float, float]:
    """Clopper and Pearson (1934), by quantiles of the beta distribution."""
    return float(beta.ppf(0.025, k, n - k + 1)), float(beta.ppf(0.975, k + 1, n - k))


# Every number of the hand-counted table in conftest.py.
Twenty = tuple[Predictions, Predictions]


def test_counts_and_rates_with_their_denominators_and_intervals(twenty: Twenty) -> None:
    report = compare(*twenty)
    assert (report.n, report.n_old) == (20, 14)
    assert report.counts.model_dump() == {
        "both_right": 7,
        "negative_flips": 3,  # s04, s05, s09
        "positive_flips": 2,  # s06, s12
        "both_wrong": 2,  # s07, s13
    }
    # Churn: the five flips, and s13 from one wrong answer to another.
    for name, count, of in (("nfr", 3, 14), ("pfr", 2, 14), ("nfi", 3, 5), ("lost", 3, 10), ("churn", 6, 14)):
        rate = getattr(report.rates, name)
        assert (rate.count, rate.of) == (count, of)
        assert getattr(report, name) == pytest.approx(count / of)
        assert rate.ci95 == pytest.approx(exact_by_formula(count, of))
    assert (report.rates.rel_nfr.count, report.rates.rel_nfr.of) == (3, pytest.approx(50 / 14))
    assert report.rel_nfr == pytest.approx((3 / 14) / ((10 / 14) * (5 / 14))) == pytest.approx(0.84)
    assert report.mcnemar_p == pytest.approx(1.0)  # 3 against 2: 2 * P(X <= 2), 5 fair coins, at most 1
    assert report.nfr_ci95 == pytest.approx(exact_by_formula(3, 14))


def test_errors_of_both_models(twenty: Twenty) -> None:
    report = compare(*twenty)
    for model, errors in ((report.old, (4 / 14, 1, 10 / 20)), (report.new, (5 / 14, 2 / 6, 7 / 20))):
        assert (model.er_old_classes, model.er_new_classes, model.er_all) == pytest.approx(errors)
    assert report.new.errors.new_classes.ci95 == pytest.approx(exact_by_formula(2, 6))
    assert report.er_difference.value == pytest.approx(1 / 14)
    assert (report.old.classes, report.new.classes) == (2, 4)


def test_calibration_on_the_classes_that_each_model_knows(twenty: Twenty) -> None:
    report = compare(*twenty)
    # old, 14 samples: .62 right 2 of 4, .82 right 3 of 5, .95 right 5 of 5
    assert report.old.ece == pytest.approx((4 * 0.12 + 5 * 0.22 + 5 * 0.05) / 14)
    # new, 20 samples: .43 right 3 of 4, .70 right 10 of 16
    assert report.new.ece == pytest.approx((4 * 0.32 + 16 * 0.075) / 20)
    # Each adaptive bin holds one confidence here, so that both errors agree.
    assert report.old.aece == pytest.approx(report.old.ece)
    assert [(b.n, b.accuracy) for b in report.old.reliability or [] if b.n] == [(4, 0.5), (5, 0.6), (5, 1.0)]


def test_where_flips_came_from_and_went(twenty: Twenty) -> None:
    report = compare(*twenty)
    assert (report.destinations.to_old_class.count, report.destinations.to_old_class.of) == (1, 3)
    assert (report.destinations.to_new_class.count, report.destinations.to_new_class.of) == (2, 3)
    rows = [(r.label, r.n, r.negative_flips, r.positive_flips, r.taken_by) for r in report.per_class]
    assert rows == [("a", 7, 2, 1, "b"), ("b", 7, 1, 1, "c")]
    rates = [rate for r in report.per_class for rate in (r.er_old, r.er_new, r.nfr.value)]
    assert rates == pytest.approx([2 / 7, 3 / 7, 2 / 7, 2 / 7, 2 / 7, 1 / 7])
    assert [(p.label, p.answer, p.new_class, p.flips) for p in report.pairs] == [
        ("a", "b", False, 1), ("a", "c", True, 1), ("b", "c", True, 1),
    ]  # fmt: skip
    assert [(f.id, f.label, f.answer, f.new_class) for f in report.worst_flips] == [
        ("s09", "b", "c", True), ("s04", "a", "b", False), ("s05", "a", "c", True),
    ]  # fmt: skip
    worst = report.worst_flips[0]
    assert (worst.old_confidence, worst.new_confidence) == pytest.approx((0.95, 0.70))


@pytest.mark.parametrize("name", ["c100_k4", "c1000_k1p5"])
def test_nfr_and_rel_nfr_equal_the_published_code(name: str) -> None:
    golden = np.load(GOLDEN / f"{name}.npz")
    num_old = int(golden["num_old"])
    target = golden["target"]
    ids = np.arange(len(target))
    old = build_predictions("old", ids, target, logits=golden["old_logits"])
    new = build_predictions("new", ids, target, logits=golden["ref_logits"])
    report = compare(old, new)
    assert report.n_old == int((target < num_old).sum())
    assert report.nfr == pytest.approx(float(golden["nfr"]), rel=1e-12)
    assert report.rel_nfr == pytest.approx(float(golden["rel_nfr"]), rel=1e-12)


FIVE = tuple("01234")
LABELS = st.integers(0, 4)
TRIPLES = st.lists(st.tuples(LABELS, LABELS, LABELS), min_size=1, max_size=60)


def two_models(rows: list[tuple[int, int, int]]) -> Twenty:
    """Two models with the answers of the rows: label, answers of the first and of the second."""
    labels, one, two = (list(column) for column in zip(*rows, strict=True))
    return answers("one", labels, one, classes=FIVE), answers("two", labels, two, classes=FIVE)


@given(TRIPLES)
def test_swapping_the_models_swaps_negative_and_positive_flips(rows: list[tuple[int, int, int]]) -> None:
    first, second = two_models(rows)
    there, back = compare(first, second), compare(second, first)
    assert (there.nfr, there.pfr, there.churn) == (back.pfr, back.nfr, back.churn)
    assert there.mcnemar_p == pytest.approx(back.mcnemar_p)
    assert there.old.er_old_classes == back.new.er_old_classes
    assert there.er_difference.value == pytest.approx(-back.er_difference.value)


@given(TRIPLES)
def test_counts_add_up(rows: list[tuple[int, int, int]]) -> None:
    old_classes = sorted({str(label) for label, _, _ in rows})[:2]
    report = compare(*two_models(rows), ComparisonRequest(old_classes=old_classes))
    counts, flips = report.counts, report.counts.negative_flips
    assert counts.total == report.n_old == sum(str(label) in old_classes for label, _, _ in rows)
    old_wrong = (counts.positive_flips + counts.both_wrong) / report.n_old
    assert report.old.er_old_classes == pytest.approx(old_wrong, abs=1e-12)
    increase = report.new.er_old_classes - report.old.er_old_classes
    assert report.er_difference.value == pytest.approx(increase, abs=1e-12)
    assert sum(row.negative_flips for row in report.per_class) == flips
    assert sum(row.n for row in report.per_class) == report.n_old
    assert sum(row.flips for row in report.pairs) == flips
    assert report.destinations.to_old_class.count + report.destinations.to_new_class.count == flips
    assert report.churn >= report.nfr + report.pfr - 1e-12


@given(TRIPLES, st.randoms(use_true_random=False))
def test_the_order_of_ids_does_not_matter(rows: list[tuple[int, int, int]], random: Random) -> None:
    labels, one, two = (list(column) for column in zip(*rows, strict=True))
    order = list(range(len(labels)))
    random.shuffle(order)
    shuffled = answers("one", labels, one, order, FIVE), answers("two", labels, two, order[::-1], FIVE)
    assert compare(*two_models(rows)) == compare(*shuffled)


def test_the_order_of_ids_and_of_logit_columns_does_not_matter(twenty: Twenty) -> None:
    old, new = twenty
    assert new.logits is not None
    ids, labels = new.ids[::-1], new.labels[::-1]
    turned = build_predictions("new", ids, labels, logits=new.logits[::-1], classes=new.classes)
    assert compare(old, new) == compare(old, turned)
    mixed = new.logits[::-1, [2, 0, 3, 1]]
    other = build_predictions("new", ids, labels, logits=mixed, classes=("c", "a", "d", "b"))
    one, two = compare(old, new), compare(old, other)
    assert (one.counts, one.pairs, one.new.errors) == (two.counts, two.pairs, two.new.errors)
