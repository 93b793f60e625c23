"""One pass over logits against the plain computation."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from mptctl.evaluation.evaluate import compare
from mptctl.evaluation.pairing.pairs import pair
from mptctl.evaluation.pairing.scores import score
from mptctl.evaluation.reading import logits as logit_rows
from mptctl.evaluation.reading.predictions import build_predictions, read_predictions
from mptctl.evaluation.report_sections import MarginSamples, summarise_margins


@pytest.mark.parametrize("block", [1, 7, 2**20])
def test_scores_equal_the_plain_computation(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logit_rows, "BLOCK", block)
    rng = np.random.default_rng(0)
    n, classes = 50, ("d", "a", "c", "b", "e")
    logits = rng.normal(size=(n, 5)) * 3
    labels = rng.choice([*classes, "unknown"], n)
    ids = rng.permutation(n)
    model = build_predictions("m", ids, labels, logits=logits, classes=classes)
    pairing = pair({"new": model})
    found = score(pairing, "new", frozenset("ac"))
    assert found is not None
    order = np.argsort(model.ids)
    for i, row in enumerate(order):
        probability = np.exp(logits[row]) / np.exp(logits[row]).sum()
        assert found.confidence[i] == pytest.approx(probability.max())
        assert found.old_logit[i] == logits[row, [1, 2]].max()
        assert found.new_logit[i] == logits[row, [0, 3, 4]].max()
        assert pairing.vocabulary[found.old_answer[i]] == ("a", "c")[int(logits[row, [1, 2]].argmax())]
        if labels[row] == "unknown":
            assert np.isnan(found.margin[i])
        else:
            at = classes.index(labels[row])
            assert found.margin[i] == pytest.approx(logits[row, at] - np.delete(logits[row], at).max())


def test_extreme_logits_give_finite_numbers() -> None:
    logits = np.array([[1e4, -1e4], [-np.inf, 0.0], [-1e300, 1e300]])
    model = build_predictions("m", np.arange(3), np.array([0, 0, 0]), logits=logits)
    found = score(pair({"new": model}), "new", frozenset("0"))
    assert found is not None
    assert found.confidence.tolist() == [1, 1, 1]
    assert found.margin.tolist() == [2e4, -np.inf, -2e300]


def test_one_class_has_no_margin() -> None:
    answers = np.array([0, 0])
    model = build_predictions("m", np.arange(2), answers, logits=np.zeros((2, 1)), origin="checkpoint")
    found = score(pair({"new": model}), "new", frozenset("0"))
    assert found is not None
    assert np.isnan(found.margin).all()
    assert summarise_margins([MarginSamples("old", "old classes", found.margin)]) is None


def test_margins_beyond_the_histogram_are_in_its_outer_bins() -> None:
    values = np.concatenate([np.linspace(-1, 1, 998), [-1000, 1000, -np.inf, np.nan]])
    summary = summarise_margins([MarginSamples("new", "old classes", values)])
    assert summary is not None
    (group,) = summary.groups
    assert group.n == 1000
    assert sum(group.histogram) == 1000
    assert -2 < summary.edges[0] < summary.edges[-1] < 2
    assert group.negative.count == 500


def test_at_a_tie_the_first_column_wins() -> None:
    for classes, wins in ((("a", "c"), True), (("c", "a"), False)):
        model = build_predictions(
            "m", np.arange(2), np.array(["a", "a"]), logits=np.array([[1.0, 1.0], [0.0, 1.0]]),
            classes=classes,
        )  # fmt: skip
        scores = score(pair({"new": model}), "new", frozenset("a"))
        assert scores is not None
        assert scores.old_first.tolist() == [wins, wins]
        assert model.preds[0] == classes[0]


def test_a_comparison_holds_no_copy_of_mapped_logits(tmp_path: Path) -> None:
    n, c = 8000, 1000  # 32 MB a file
    logits = np.broadcast_to(np.linspace(0, 5, c, dtype=np.float32), (n, c))
    for name in ("old", "new"):
        np.savez(tmp_path / f"{name}.npz", id=np.arange(n), label=np.arange(n) % c, logits=logits)
    tracemalloc.start()
    try:
        compare(*(read_predictions(tmp_path / f"{name}.npz") for name in ("old", "new")))
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    # Blocks of 8 MB in double precision, and three or four of them at a time while they are looked at.
    assert peak < 48e6


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("size", [1e307, 1.7e308])
def test_margins_beyond_any_model_count_as_infinite(size: float) -> None:
    ids, labels = np.arange(4), np.array(["a", "a", "b", "c"])
    logits = np.array([[size, -size], [3.0, 1.0], [size, -size], [0.0, 0.0]])
    old = build_predictions("old", ids, labels, logits=logits, classes=("a", "b"))
    # New is right on the first, by an infinite margin, and on the second by 2; on the third it is wrong by 4.
    more = np.array([[size, -size, 0.0], [2.0, 0.0, 0.0], [5.0, 1.0, -size], [0.0, 0.0, size]])
    new = build_predictions("new", ids, labels, logits=more, classes=("a", "b", "c"))
    report = compare(old, new)
    assert (report.n_old, report.counts.negative_flips) == (3, 0)
    assert report.margins is not None
    groups = {(group.model, group.samples): group for group in report.margins.groups}
    assert groups["old", "old classes"].mean == 2.0
    assert (groups["new", "old classes"].n, groups["new", "old classes"].mean) == (2, -1.0)
    assert groups["new", "old classes"].negative.value == 0.5
    assert ("new", "new classes") not in groups
    assert all(abs(edge) <= 4 for edge in report.margins.edges)
    assert report.new.ece is not None
