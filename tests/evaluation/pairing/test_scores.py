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


@pytest.mark.parametrize("block", [1, 7, 2**20])
def test_scores_equal_the_plain_computation(block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logit_rows, "BLOCK", block)
    rng = np.random.default_rng(0)
    n, classes = 50, ("d", "a", "c", "b", "e")
    logits = rng.normal(size=(n, 5)) * 3
    logits[0, 1:4], logits[1, 0] = -np.inf, -np.inf
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
def test_logits_beyond_any_models_give_no_warning(size: float) -> None:
    ids, labels = np.arange(4), np.array(["a", "a", "b", "c"])
    logits = np.array([[size, -size], [3.0, 1.0], [size, -size], [0.0, 0.0]])
    old = build_predictions("old", ids, labels, logits=logits, classes=("a", "b"))
    more = np.array([[size, -size, 0.0], [2.0, 0.0, 0.0], [5.0, 1.0, -size], [0.0, 0.0, size]])
    new = build_predictions("new", ids, labels, logits=more, classes=("a", "b", "c"))
    report = compare(old, new)
    assert (report.n_old, report.counts.negative_flips) == (3, 0)
    assert report.new.ece is not None
