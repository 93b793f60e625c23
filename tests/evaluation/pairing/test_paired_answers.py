"""Answers by role: who was right, what there was to keep, and what flipped; and no torch behind it."""

from __future__ import annotations

import numpy as np

from mptctl.evaluation.pairing.paired_answers import PairedAnswers
from mptctl.evaluation.pairing.pairs import pair
from mptctl.evaluation.reading.predictions import Predictions, build_predictions


def answers(name: str, preds: str) -> Predictions:
    labels = np.array(list("aabbc"))
    return build_predictions(name, np.arange(5), labels, np.array(list(preds)), classes=tuple("abc"))


def test_a_role_does_not_depend_on_the_order_in_which_models_are_given() -> None:
    old, new, third = answers("old", "abbbc"), answers("new", "caabc"), answers("o", "aaaac")
    given = PairedAnswers(pair({"old": old, "new": new, "baseline": third}), frozenset("ab"))
    turned = PairedAnswers(pair({"baseline": third, "new": new, "old": old}), frozenset("ab"))
    for role in ("new", "baseline"):
        assert given.counts(role) == turned.counts(role)
        assert given.changed(role) == turned.changed(role)
    assert given.counts("baseline").negative_flips == 2
