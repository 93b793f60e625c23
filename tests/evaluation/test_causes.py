"""Causes of flips: a table made by hand, one sample for each rule and for each way past it."""

from __future__ import annotations

import numpy as np
import pytest

from mptctl.evaluation.bias.validation_samples import ValidationSamples
from mptctl.evaluation.causes import CAUSES, choose_shift, find_causes, find_shift
from mptctl.evaluation.evaluate import ComparisonRequest, compare
from mptctl.evaluation.flip_report import Cause
from mptctl.evaluation.pairing.paired_answers import PairedAnswers
from mptctl.evaluation.pairing.pairs import pair
from mptctl.evaluation.reading.predictions import Predictions, build_predictions

# label, OLD's logits of a b c, NEW's of a b c d e, answers of the old model trained again and of a plain update, and
# the cause with everything given at a constant of 1; then the cause with no third model and no constant
TABLE: list[tuple[str, list[float], list[float], str, str, str, str]] = [
    ("a", [3, 1, 0], [2, 0, 0, 2.5, 0], "b", "d", "noise", "new class"),
    ("a", [3, 1, 0], [2, 3, 0, 0, 0], "a", "b", "label doubtful", "old classes"),
    ("a", [3, 1, 0], [2, 3, 0, 0, 0], "a", "c", "old classes", "old classes"),  # the plain update disagrees
    ("a", [3, 0, 1], [2, 3, 0, 0, 0], "a", "b", "old classes", "old classes"),  # OLD's second choice does
    ("a", [3, 1, 0], [2, 3, 0, 0, 0], "b", "b", "noise", "old classes"),  # noise is asked before the label
    ("a", [3, 1, 0], [2, 0, 0, 2.5, 0], "a", "d", "bias", "new class"),
    ("a", [3, 1, 0], [2, 0, 0, 4, 3], "a", "a", "new class", "new class"),  # 1 is too little
    ("a", [3, 1, 0], [2, 0, 0, 3, 0], "a", "a", "bias", "new class"),  # a tie, won by the first column
    ("a", [3, 1, 0], [2, 3, 0, 5, 0], "a", "a", "old classes", "old classes"),  # b is above, whatever d is
    ("a", [3, 1, 0], [1, 3, 2.5, 0, 0], "a", "a", "forgotten", "forgotten"),
    ("a", [3, 1, 0], [1, 3, 2.5, 9, 0], "a", "a", "forgotten", "forgotten"),
    (
        "b",
        [0, 3, 0],
        [2, 2, 0, 0, 0],
        "b",
        "b",
        "old classes",
        "old classes",
    ),  # a tie, lost by the second column
    ("b", [0, 3, 0], [0, 2, 0, 0, 0], "a", "a", "", ""),  # kept
    ("b", [3, 0, 0], [3, 2, 0, 0, 0], "a", "a", "", ""),  # was wrong before
    ("d", [3, 0, 0], [3, 2, 0, 0, 0], "a", "a", "", ""),  # no old class
]
IDS = np.array([f"s{i:02d}" for i in range(len(TABLE))])


def models(third: bool = True) -> dict[str, Predictions]:
    labels = np.array([row[0] for row in TABLE])
    logits = [np.array([row[column] for row in TABLE], dtype=np.float32) for column in (1, 2)]
    found = {
        "old": build_predictions("old", IDS, labels, logits=logits[0], classes=("a", "b", "c")),
        "new": build_predictions("new", IDS, labels, logits=logits[1], classes=tuple("abcde")),
    }
    if third:
        answers = [np.array([row[column] for row in TABLE]) for column in (3, 4)]
        found["noise_floor"] = build_predictions("again", IDS, labels, answers[0], classes=("a", "b", "c"))
        found["baseline"] = build_predictions("free", IDS, labels, answers[1], classes=tuple("abcde"))
    return found


@pytest.mark.parametrize(("third", "constant", "column"), [(True, 1.0, 5), (False, None, 6)])
def test_by_hand(third: bool, constant: float | None, column: int) -> None:
    found = find_causes(PairedAnswers(pair(models(third)), frozenset("abc")), constant)
    assert found is not None
    causes, by_id = found
    expected = {str(i): str(row[column]) for i, row in zip(IDS, TABLE, strict=True) if row[column]}
    assert by_id == expected
    found_counts = {
        row.cause: None if row.flips is None else (row.flips.count, row.flips.of) for row in causes.rows
    }
    untried = () if third else ("noise", "label doubtful", "bias")
    assert found_counts == {
        cause: None if cause in untried else (list(expected.values()).count(cause), 12) for cause in CAUSES
    }
    assert causes.bias == constant
    missing = [
        "noise: needs --noise-floor",
        "label doubtful: needs --baseline",
        "bias: needs a validation part",
    ]
    assert causes.not_tried == ([] if third else missing)


def test_the_report_has_them_where_the_validation_part_can_be_asked() -> None:
    found = models()
    asked = []

    def validation() -> Predictions:
        asked.append(1)
        return found["new"]

    keys = {"noise_floor": found["noise_floor"], "baseline": found["baseline"]}
    report = compare(found["old"], found["new"], ComparisonRequest(validation=validation), **keys)
    assert report.causes is not None and len(asked) == 1
    counts = [row.flips.count for row in report.causes.rows if row.flips is not None]
    assert sum(counts) == report.counts.negative_flips == 12
    assert {flip.id: flip.cause for flip in report.worst_flips}["s09"] == "forgotten"
    without = compare(found["old"], found["new"])
    assert (without.causes, without.worst_flips[0].cause) == (None, None)
    plain = build_predictions("old", IDS, found["old"].labels, found["old"].preds, classes=("a", "b", "c"))
    assert (
        compare(plain, found["new"], ComparisonRequest(validation=validation)).causes is None
    )  # OLD has no logits


def test_the_constant_makes_fewest_errors_on_the_validation_part() -> None:
    """Old samples lose by 1, new ones win by 2: every constant between heals all, and none else."""
    logits = np.array([[0.0, 1]] * 3 + [[0.0, 2]] * 2)
    truth = np.array([0, 0, 0, 1, 1])
    samples = ValidationSamples(logits, truth, np.array([False, True]), truth == 0, truth == 0)
    assert 1 < choose_shift(samples) < 2
    named = build_predictions(
        "val", np.arange(5), np.array(["a", "b"])[truth], logits=logits, classes=("a", "b")
    )
    assert 1 < (find_shift(named, frozenset("a")) or 0) < 2
    assert find_shift(None, frozenset("a")) is None
    # Nothing is taken off if new samples are more.
    more = np.array([1, 1, 1, 1, 0])
    apart = ValidationSamples(np.array([[0.0, 1]] * 5), more, np.array([False, True]), more == 0, more == 0)
    assert choose_shift(apart) == 0.0


def test_every_cause_is_named_once() -> None:
    assert CAUSES == ("noise", "label doubtful", "bias", "new class", "old classes", "forgotten")
    cause: Cause = CAUSES[-1]
    assert cause == "forgotten"
