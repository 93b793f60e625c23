"""One model twice, and an old model that cannot be meant."""

from __future__ import annotations

import numpy as np
import pytest

from mptctl.evaluation.evaluate import ComparisonRequest, compare
from mptctl.evaluation.limits import Limits
from mptctl.evaluation.reading.predictions import Predictions, build_predictions
from tests.evaluation.made_up import answers


def turned(model: Predictions, **changes: object) -> Predictions:
    """The same content as another file has it: samples and columns in another order."""
    assert model.logits is not None
    assert model.classes is not None
    parts = {
        "ids": model.ids[::-1],
        "labels": model.labels[::-1],
        "logits": model.logits[::-1, ::-1],
        "classes": model.classes[::-1],
    }
    return build_predictions("turned", **(parts | changes))  # type: ignore[arg-type]


def test_one_model_is_recognised_in_any_order(twenty: tuple[Predictions, Predictions]) -> None:
    for model in twenty:
        for other in (model, turned(model)):
            report = compare(model, other, ComparisonRequest(limits=Limits(max_nfr=0.5)))
            assert report.identical
            assert report.gate.failed == ["identical"]
    assert not compare(*twenty).identical
    # The request may know it from the files.
    said = ComparisonRequest(identical=True, limits=Limits(max_nfr=1))
    assert compare(*twenty, said).gate.failed == ["identical"]


def test_equal_answers_from_other_logits_are_a_remark(twenty: tuple[Predictions, Predictions]) -> None:
    old = twenty[0]
    assert old.logits is not None
    for logits in (old.logits + 1e-6, old.logits.astype(np.float16)):
        exported = build_predictions("exported", old.ids, old.labels, logits=logits, classes=old.classes)
        report = compare(old, exported, ComparisonRequest(limits=Limits(max_nfr=0)))
        assert (report.identical, report.gate.passed) == (False, True)
        assert any("OLD and NEW predict all 20 samples alike" in warning for warning in report.warnings)


def test_one_answer_or_one_class_more_is_another_model() -> None:
    labels = [0, 1, 2]
    report = compare(answers("old", labels, labels), answers("new", labels, [0, 1, 1]))
    assert not report.identical
    assert not any("alike" in warning for warning in report.warnings)
    old, new = (answers("m", labels, labels, classes=tuple(known)) for known in ("012", "0123"))
    assert not compare(old, new).identical


@pytest.mark.parametrize(("right", "warned"), [(100, True), (180, True), (300, False), (900, False)])
def test_an_old_model_at_chance_level(right: int, warned: bool) -> None:
    """The numbers say that something is wrong with a model rather than with an update."""
    labels = np.arange(1000) % 10
    old = np.where(np.arange(1000) < right, labels, (labels + 1) % 10).tolist()
    old, new = answers("old", labels, old, classes=tuple("0123456789")), answers("new", labels, labels)
    said = [text for text in compare(old, new).warnings if "hardly ever right" in text]
    assert len(said) == warned
    for part in (
        f"{right / 10:.2f} %",
        "guessing among 10 gives 10.00 %",
        "preprocessing",
        "order of the class names",
    ):
        assert all(part in text for text in said)


def test_predictions_of_other_samples_look_unrelated() -> None:
    """Of 40 right answers of four classes, ids that are moved by one keep those of no more than chance."""
    labels = np.repeat([0, 1, 2, 3], 10)
    rng = np.random.default_rng(3)
    shuffled = rng.permutation(labels)
    kept = int((shuffled == labels).sum())
    report = compare(answers("old", labels, labels), answers("new", labels, shuffled))
    said = [text for text in report.warnings if "look unrelated" in text]
    assert len(said) == 1
    assert f"of 40 right predictions of the old model the new one keeps {kept} " in said[0]
    assert "keep 25.00 %" in said[0]
    # A model that loses a quarter is a poor one, and related.
    poor = np.where(np.arange(40) % 4 == 0, (labels + 1) % 4, labels)
    related = compare(answers("old", labels, labels), answers("new", labels, poor))
    assert not [text for text in related.warnings if "look unrelated" in text]


def test_probabilities_that_are_called_logits() -> None:
    labels, logits = np.arange(6) % 3, np.eye(3)[np.arange(6) % 3] * 2
    softmax = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    old = build_predictions("old", np.arange(6), labels, logits=logits)
    new = build_predictions("new", np.arange(6), labels, logits=softmax)
    said = [text for text in compare(old, new).warnings if "look like probabilities" in text]
    assert len(said) == 1
    assert said[0].startswith("new: ")
