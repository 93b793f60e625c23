"""Matching by id: what does not match is counted, and the first three are named."""

from __future__ import annotations

import numpy as np
import pytest

from mptctl.errors import DataError
from mptctl.evaluation.pairing import pair
from mptctl.evaluation.predictions import Predictions, build_predictions


def model(name: str, ids: list[str], labels: list[str] | None = None) -> Predictions:
    values = np.array(labels or ["a"] * len(ids))
    return build_predictions(name, np.array(ids), values, values)


def test_samples_are_matched_in_any_order() -> None:
    one = build_predictions("one", np.array(["x", "y"]), np.array(["a", "b"]), np.array(["b", "c"]))
    two = build_predictions("two", np.array(["y", "x"]), np.array(["b", "a"]), np.array(["b", "a"]))
    pairing = pair([one, two])
    assert pairing.ids.tolist() == ["x", "y"]
    assert pairing.vocabulary == ("a", "b", "c")
    assert pairing.truth.tolist() == [0, 1]
    assert [answers.tolist() for answers in pairing.answers] == [[1, 2], [0, 1]]
    assert [rows.tolist() for rows in pairing.rows] == [[0, 1], [1, 0]]


def test_repeated_ids() -> None:
    ids = ["a", "b", "b", "c", "c", "c", "d", "d", "e", "e"]
    with pytest.raises(DataError, match=r"two: 4 ids stand there more than once \(b, c, d and 1 more\)"):
        pair([model("one", ["a"]), model("two", ids)])


def test_missing_ids() -> None:
    with pytest.raises(DataError, match=r"two: against one it lacks 4 of its ids \(b, c, d and 1 more\)"):
        pair([model("one", ["a", "b", "c", "d", "e"]), model("two", ["a"])])


def test_extra_ids() -> None:
    with pytest.raises(DataError, match=r"two: against one it has 1 ids more \(z\)"):
        pair([model("one", ["a"]), model("two", ["z", "a"])])


def test_missing_and_extra_ids() -> None:
    with pytest.raises(DataError, match=r"lacks 1 of its ids \(b\) and has 1 ids more \(z\)"):
        pair([model("one", ["a", "b"]), model("two", ["a", "z"])])


def test_different_labels_for_one_id() -> None:
    one = model("one", ["a", "b", "c", "d"], ["1", "2", "3", "4"])
    two = model("two", ["d", "c", "b", "a"], ["9", "9", "9", "9"])
    expected = r"two: 4 labels differ from one \(a: 1 or 9, b: 2 or 9, c: 3 or 9 and 1 more\)"
    with pytest.raises(DataError, match=expected) as caught:
        pair([one, two])
    assert caught.value.exit_code == 4


def test_a_third_model_is_matched_too() -> None:
    with pytest.raises(DataError, match="three: against one"):
        pair([model("one", ["a"]), model("two", ["a"]), model("three", ["b"])])
