"""Matching by id: what does not match is counted, and the first three are named."""

from __future__ import annotations

import numpy as np
import pytest

from mptctl.errors import DataError
from mptctl.evaluation.pairing.pairs import OldClasses, choose_old_classes, pair
from mptctl.evaluation.reading.predictions import Predictions, build_predictions


def answers(
    name: str, labels: list[str], preds: list[str], classes: tuple[str, ...] | None = None
) -> Predictions:
    return build_predictions(
        name, np.arange(len(labels)), np.array(labels), np.array(preds, dtype=object), classes=classes
    )


TWENTY = ["cat", "dog"] * 10


@pytest.mark.parametrize(
    ("labels", "preds", "said"),
    [
        (["1", "2", "3", "4", "1"], ["1.0", "2.0", "3.0", "4.0", "1.0"],
         r"'1\.0' for '1', '2\.0' for '2', '3\.0' for '3' and 1 more"),
        (["caf\u00e9"], ["cafe\u0301"], r"'cafe\\u0301' for 'caf\\xe9'"),
        (TWENTY, ["hound" if i < 11 else truth for i, truth in enumerate(TWENTY)],
         r"odd: 11 of 20 predictions, 1 names, .*nearest: 'hound' for '(dog|cat)'"),
        # Labels that only a blank, a form of a number or of Unicode tells apart.
        *(([one, other, one], [one] * 3, r"odd: .*labels .*spelled")
          for one, other in (("cat", "cat "), ("1", "1.0"), ("caf\u00e9", "cafe\u0301"))),
    ],
)  # fmt: skip
def test_an_answer_that_differs_from_a_label_only_in_form_is_no_wrong_one(
    labels: list[str], preds: list[str], said: str
) -> None:
    """It would count as wrong, and hide every flip."""
    with pytest.raises(DataError, match=said):
        pair({"new": answers("odd", labels, preds)})


@pytest.mark.parametrize(("labels", "classes"), [(["cat", "dog"], ("0", "1")), (["0", "1"], ("cat", "dog"))])
def test_places_in_the_class_list(labels: list[str], classes: tuple[str, ...]) -> None:
    old, new = answers("old", labels, list(classes), classes), answers("new", labels, labels)
    for check in (pair, lambda both: choose_old_classes(**both, given=labels)):
        with pytest.raises(DataError, match=r"old: none of its 2 classes .* is a label"):
            check({"old": old, "new": new})


def test_a_few_unknown_answers_are_counted_in_a_warning() -> None:
    few = ["hound" if i < 10 else truth for i, truth in enumerate(TWENTY)]
    old, new = answers("old", TWENTY, TWENTY, ("cat", "dog")), answers("new", TWENTY, few)
    assert pair({"old": old, "new": new}).answers["new"].size == 20
    warnings = choose_old_classes(old, new).warnings
    assert len(warnings) == 1
    assert "new: 10 of 20 predictions" in warnings[0]
    assert "hound" in warnings[0]


def test_answers_that_a_class_list_knows_are_sound() -> None:
    labels = ["cat"] * 4
    old = answers("old", labels, ["emu"] * 4)
    new = answers("new", labels, ["cat"] * 4, ("cat", "emu"))
    pair({"old": old, "new": new})
    assert len(choose_old_classes(old, new).warnings) == 1  # that all labels count as old


def test_an_old_class_without_samples_spelled_unlike_the_new_models() -> None:
    old = answers("old", ["b"], ["b"], ("b", "C0"))
    with pytest.raises(DataError, match=r"'C0' for 'c0'|'c0' for 'C0'"):
        pair({"old": old, "new": answers("new", ["b"], ["b"], ("b", "c0"))})


@pytest.mark.parametrize(
    ("labels", "old_classes", "new_classes"),
    [
        (["A", "a", "B"], ("A", "B"), ("A", "a", "B")),  # letters: case makes the class
        (["a", "B"], ("A", "B"), ("A", "a", "B")),  # no sample of A, and the new model knows both
        (["A", "a", "B"], ("A", "B"), None),
        (["A", "a", "B"], None, None),
        (["1", "01", "B"], ("1", "B"), None),
        (["1.1", "1.10"], None, None),
        (["crane", "crane ", "B"], ("crane", "B"), ("crane", "crane ", "B")),
        (["-1", "1"], None, None),
    ],
)
def test_classes_of_one_form_that_stand_in_one_list_are_two_classes(
    labels: list[str], old_classes: tuple[str, ...] | None, new_classes: tuple[str, ...] | None
) -> None:
    known = [label for label in labels if old_classes is None or label in old_classes]
    old = answers("old", labels, [known[0]] * len(labels), old_classes)
    new = answers("new", labels, labels, new_classes)
    assert pair({"old": old, "new": new}).truth.size == len(labels)
    choose_old_classes(old, new)


def logits(name: str, labels: list[int], columns: int, given: bool = False) -> Predictions:
    """A model that answers its labels by logits of so many columns, with or without a list of classes."""
    classes = tuple(map(str, range(columns))) if given else None
    rows = np.arange(len(labels))
    return build_predictions(
        name, rows, np.array(labels), logits=np.eye(len(labels), columns), classes=classes
    )


def test_labels_that_the_old_model_lacks_and_the_new_one_has_are_new_classes() -> None:
    old, new = logits("old", [0, 1, 2, 3], 2), logits("new", [0, 1, 2, 3], 4)
    assert choose_old_classes(old, new) == OldClasses(frozenset("01"), [], [])
    pair({"old": old, "new": new})


def test_labels_that_the_new_model_lacks_are_refused_or_with_classes_warned_of() -> None:
    old, new = logits("old", [0, 1, 2, 3], 2), logits("new", [0, 1, 2, 3], 3)
    for check in (pair, lambda both: choose_old_classes(**both)):
        with pytest.raises(DataError, match=r"new: 1 of 4 labels .*0\.\.2 \(3\)"):
            check({"old": old, "new": new})
    old, new = logits("old", [0, 1, 2, 3], 2, True), logits("new", [0, 1, 2, 3], 3, True)
    pair({"old": old, "new": new})
    assert "cannot predict 1 classes" in choose_old_classes(old, new).warnings[0]


def test_an_old_model_whose_labels_begin_at_1_beside_one_that_does_not_say_what_it_knows() -> None:
    labels = [1, 2, 3, 3]
    old = build_predictions("old", np.arange(4), np.array(labels), logits=np.eye(3)[[1, 2, 0, 0]])
    new = answers("new", list(map(str, labels)), list(map(str, labels)))
    with pytest.raises(DataError, match=r"old: 2 of 4 labels .*0\.\.2 \(3\)"):
        pair({"old": old, "new": new})
