"""The bias sweep against biases that are taken off the logits themselves, at every crossing and beside it."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from mptctl.evaluation.bias.sweep import POINTS, sweep_bias
from mptctl.evaluation.flip_report import SweepPoint
from mptctl.evaluation.pairing.pairs import pair
from mptctl.evaluation.pairing.scores import score
from mptctl.evaluation.reading.predictions import build_predictions

Logits = NDArray[np.float64]
Labels = NDArray[np.int64]


def curve_of(logits: Logits, labels: Labels, old: str, old_right: NDArray[np.bool_]) -> list[SweepPoint]:
    ids = np.char.zfill(np.arange(len(labels)).astype(str), 6)
    classes = tuple(str(c) for c in range(logits.shape[1]))
    model = build_predictions("m", ids, labels, logits=logits, classes=classes)
    pairing = pair({"new": model})
    scores = score(pairing, "new", frozenset(old))
    assert scores is not None
    of_old = np.isin(labels, [int(c) for c in old])
    return sweep_bias(scores, pairing.truth, of_old, of_old & old_right)


def rates(logits: Logits, labels: Labels, old: str, old_right: NDArray[np.bool_], bias: float) -> SweepPoint:
    """The same by taking the bias off the logits."""
    columns = [int(c) for c in old]
    biased = logits - bias * ~np.isin(np.arange(logits.shape[1]), columns)
    wrong, of_old = biased.argmax(axis=1) != labels, np.isin(labels, columns)
    return SweepPoint(
        bias=bias,
        nfr=(wrong & old_right & of_old).sum() / of_old.sum(),
        er_old_classes=wrong[of_old].mean(),
        er_new_classes=None if of_old.all() else wrong[~of_old].mean(),
        er_all=wrong.mean(),
    )


# Columns: old 0, old 1, new 2. Gaps of the new class over the best old one: 4, 2, -1, 1.
BY_HAND = np.array([[1.0, 0.0, 5.0], [0.0, 1.0, 3.0], [3.0, 0.0, 2.0], [0.0, 0.0, 1.0]])
TRUTH = np.array([0, 1, 0, 2])


def test_by_hand() -> None:
    curve = curve_of(BY_HAND, TRUTH, "01", np.ones(4, dtype=bool))
    # At 1 the sample of the new class is lost, at 2 and at 4 a flipped one comes back.
    assert [(p.bias, p.nfr, p.er_old_classes, p.er_new_classes, p.er_all) for p in curve] == [
        (0, 2 / 3, 2 / 3, 0, 0.5),
        (1, 2 / 3, 2 / 3, 1, 0.75),
        (2, 1 / 3, 1 / 3, 1, 0.5),
        (4, 0, 0, 1, 0.25),
    ]


def test_a_step_between_two_coarse_ones_is_not_missed() -> None:
    """One gap of 100 made equal steps of 2.5: the samples that cross at 1.4 were seen together with those at 1.5."""
    gaps = np.array([100.0] * 10 + [1.4] * 5 + [1.5] * 5)
    logits = np.stack([np.zeros(20), gaps], axis=1)
    labels = np.array([1] * 10 + [0] * 5 + [1] * 5)
    curve = curve_of(logits, labels, "0", np.ones(20, dtype=bool))
    assert [point.bias for point in curve if point.er_all == 0] == [1.4]
    assert [point.nfr for point in curve if point.er_all == 0] == [0]


def test_where_no_bias_changes_an_answer_there_is_no_curve() -> None:
    logits = np.array([[1.0, -np.inf], [-np.inf, 1.0], [2.0, 1.0]])
    assert curve_of(logits, np.array([0, 0, 0]), "0", np.ones(3, dtype=bool)) == []


# Whole quarters, whose differences are exact, with ties and classes that are ruled out.
LOGIT = st.sampled_from([-np.inf, -16.0, -0.25, 0.0, 0.25, 0.5, 1.0, 16.0])


@st.composite
def tables(draw: st.DrawFn) -> tuple[Logits, Labels, str, NDArray[np.bool_]]:
    n, c = draw(st.integers(1, 8)), draw(st.integers(2, 4))
    logits = np.array(draw(st.lists(st.lists(LOGIT, min_size=c, max_size=c), min_size=n, max_size=n)))
    logits[np.isinf(logits).all(axis=1), draw(st.integers(0, c - 1))] = 0.25
    old = draw(st.permutations(range(c)))[: draw(st.integers(1, c - 1))]
    labels = np.array(draw(st.lists(st.integers(0, c - 1), min_size=n, max_size=n)))
    labels[0] = old[0]
    old_right = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    return logits, labels, "".join(map(str, old)), old_right


@given(tables())
def test_every_step_is_what_its_biases_do(table: tuple[Logits, Labels, str, NDArray[np.bool_]]) -> None:
    """Each point of the curve against biases inside its step; at a crossing itself two logits are equal."""
    curve = curve_of(*table)
    brute = [rates(*table, bias) for bias in [0.0, *np.arange(0.125, 34, 0.25)]]
    without_bias = [point.model_copy(update={"bias": 0.0}) for point in brute]
    if not curve:
        assert all(point == brute[0] for point in without_bias)
        return
    ends = [point.bias for point in curve[1:]] + [curve[-1].bias + 1]
    for point, end in zip(curve, ends, strict=True):
        inside = (point.bias + end) / 2 if point.bias else 0.0
        assert rates(*table, inside) == point.model_copy(update={"bias": inside})
    # No bias does anything that no step says.
    seen = [point.model_copy(update={"bias": 0.0}) for point in curve]
    assert all(point in seen for point in without_bias)


def test_a_long_curve_is_thinned_for_the_figure_but_its_minimum_is_over_all_steps() -> None:
    rng = np.random.default_rng(0)
    n = 3000
    labels = rng.integers(0, 4, n)
    logits = rng.normal(size=(n, 4)) + 1.5 * (np.arange(4) == labels[:, None])
    old_right = rng.random(n) < 0.9
    table = (logits, labels, "01", old_right)
    curve = curve_of(*table)
    assert len(curve) <= POINTS + 1
    gaps = np.unique(logits[:, 2:].max(axis=1) - logits[:, :2].max(axis=1))
    brute = [rates(*table, float(bias)) for bias in [0.0, *np.nextafter(gaps[gaps > 0], np.inf)]]
    assert len(brute) > 5 * POINTS
    assert min(point.er_all for point in curve) == min(point.er_all for point in brute)
    assert curve[-1].nfr == brute[-1].nfr
    assert curve[0] == brute[0]
