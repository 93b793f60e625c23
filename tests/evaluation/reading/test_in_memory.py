"""Arrays as predictions: what the columns of logits are called, and lengths that do not fit."""

from __future__ import annotations

import numpy as np
import pytest

from mptctl.errors import DataError
from mptctl.evaluation.reading.in_memory import InMemory


def test_answers_and_logits_become_predictions() -> None:
    test = InMemory.of(["cat", "dog", "emu"], classes=["cat", "dog", "emu"], old_classes=["dog", "cat"])
    assert test.ids.tolist() == ["0", "1", "2"]
    answers = test.predictions("new", ["cat", "cat", "emu"])
    assert (answers.preds.tolist(), answers.classes) == (["cat", "cat", "emu"], ("cat", "dog", "emu"))
    # The old model's columns are named by `old_classes`, whose first is the dog.
    old = test.predictions("old", np.eye(2)[[0, 1, 1]], is_old=True)
    assert (old.preds.tolist(), old.classes) == (["dog", "cat", "cat"], ("dog", "cat"))
    # Old answers are those of a model that does not say what it knows.
    assert test.predictions("old", ["cat", "cat", "cat"], is_old=True).classes is None


def test_without_names_columns_are_numbers() -> None:
    found = InMemory.of([0, 1, 2]).predictions("old", np.eye(3), is_old=True)
    assert (found.preds.tolist(), found.counted) == (["0", "1", "2"], True)


def test_lengths_that_do_not_fit() -> None:
    with pytest.raises(DataError, match="ids: 1 rows for 2 labels"):
        InMemory.of([0, 1], ids=["a"])
    with pytest.raises(DataError, match="new: 3 rows for 2 labels"):
        InMemory.of([0, 1]).predictions("new", [0, 1, 1])
