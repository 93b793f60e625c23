"""Answers by role: who was right, what there was to keep, and what flipped; and no torch behind it."""

from __future__ import annotations

import ast
from pathlib import Path

import numpy as np

import mptctl.evaluation
from mptctl.evaluation.pairing.paired_answers import PairedAnswers
from mptctl.evaluation.pairing.pairs import pair
from mptctl.evaluation.reading.predictions import Predictions, build_predictions

# Below the arithmetic: all that it may import of mptctl.
FLOOR = {"errors", "files", "names", "schema", "evaluation"}


def answers(name: str, preds: str) -> Predictions:
    labels = np.array(list("aabbc"))
    return build_predictions(name, np.arange(5), labels, np.array(list(preds)), classes=tuple("abc"))


def test_flips_are_what_the_old_model_knew_and_the_new_one_does_not() -> None:
    models = {
        "old": answers("old", "abbbc"),
        "new": answers("new", "caabc"),
    }
    found = PairedAnswers(pair(models), frozenset("ab"))
    assert found.of_old.tolist() == [True, True, True, True, False]
    assert found.right["old"].tolist() == [True, False, True, True, True]
    assert found.to_keep.tolist() == [True, False, True, True, False]
    assert found.flipped.tolist() == [True, False, True, False, False]
    counts = found.counts()
    assert (counts.both_right, counts.negative_flips, counts.positive_flips, counts.both_wrong) == (
        1,
        2,
        1,
        0,
    )
    assert found.changed() == 3
    assert found.scores == {}


def test_a_role_does_not_depend_on_the_order_in_which_models_are_given() -> None:
    old, new, third = answers("old", "abbbc"), answers("new", "caabc"), answers("o", "aaaac")
    given = PairedAnswers(pair({"old": old, "new": new, "baseline": third}), frozenset("ab"))
    turned = PairedAnswers(pair({"baseline": third, "new": new, "old": old}), frozenset("ab"))
    for role in ("new", "baseline"):
        assert given.counts(role) == turned.counts(role)
        assert given.changed(role) == turned.changed(role)
    assert given.counts("baseline").negative_flips == 2


def test_the_arithmetic_knows_neither_models_nor_pictures() -> None:
    found = set()
    for path in Path(mptctl.evaluation.__path__[0]).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module)
            elif isinstance(node, ast.Import):
                found |= {name.name for name in node.names}
    ours = {name.split(".")[1] for name in found if name.startswith("mptctl.")}
    assert ours <= FLOOR
    assert not {"torch", "mpt_kernels"} & {name.partition(".")[0] for name in found}
