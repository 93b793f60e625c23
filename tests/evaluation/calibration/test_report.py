"""One model by itself: which samples count, agreement with the comparison, and temperatures that are not there."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from mptctl.errors import DataError
from mptctl.evaluation.calibration.report import measure_calibration
from mptctl.evaluation.evaluate import ComparisonRequest, compare
from mptctl.evaluation.reading.predictions import Predictions, build_predictions

CLASSES = ("ant", "bee", "cow", "dog")


def predictions(
    part: str = "test", n: int = 600, seed: int = 0, known: tuple[str, ...] = CLASSES, scale: float = 2.0
) -> Predictions:
    """Answers on samples of all four classes by a model that knows some of them, too sure of itself."""
    rng = np.random.default_rng(seed)
    labels = np.array(CLASSES)[rng.integers(0, 4, n)]
    logits = rng.normal(size=(n, len(known))) + 1.5 * (labels[:, None] == np.array(known))
    ids = np.array([f"{part}/{i}" for i in range(n)])
    return build_predictions(part, ids, labels, logits=scale * logits, classes=known)


def of_one(label: str, answers: list[str] | None = None, **more: Any) -> Predictions:
    """A model with one sample."""
    preds = None if answers is None else np.array(answers)
    return build_predictions("m", np.array(["1"]), np.array([label]), preds, **more)


def test_the_figures_are_those_of_the_comparison() -> None:
    for known in (CLASSES, ("cow", "ant")):
        model = predictions(known=known)
        alone, both = measure_calibration(model), compare(model, model, ComparisonRequest(old_classes=known))
        # The comparison sums in the order of the ids.
        assert (alone.ece, alone.aece) == pytest.approx((both.old.ece, both.old.aece), rel=1e-12)
        assert [b.n for b in alone.reliability] == [b.n for b in both.old.reliability or []]
        assert alone.er_all == pytest.approx(both.old.er_all)
        assert 1 - alone.accuracy == pytest.approx(both.old.er_old_classes)


def test_samples_of_classes_that_it_does_not_know_count_as_errors_alone() -> None:
    model = predictions(known=("dog", "bee"))
    report = measure_calibration(model)
    of_known = np.isin(model.labels, ("dog", "bee"))
    assert (report.n, report.n_all, report.classes) == (of_known.sum(), 600, 2)
    assert report.accuracy == (model.preds == model.labels)[of_known].mean()
    assert report.er_all == pytest.approx((model.preds != model.labels).mean())
    assert f"{600 - report.n} of 600 test samples are of classes" in report.warnings[0]
    # As a file that holds these samples alone.
    assert model.logits is not None
    part = build_predictions(
        "part", model.ids[of_known], model.labels[of_known], logits=model.logits[of_known],
        classes=("dog", "bee"),
    )  # fmt: skip
    alone = measure_calibration(part)
    keys = ("ece", "aece", "cwece", "mce", "nll", "brier", "n", "accuracy", "reliability")
    assert [getattr(alone, key) for key in keys] == [getattr(report, key) for key in keys]
    assert alone.warnings == []


def test_the_order_of_classes_and_samples_does_not_matter() -> None:
    model = predictions()
    assert model.logits is not None
    turned = build_predictions(
        "test", model.ids[::-1], model.labels[::-1], logits=model.logits[::-1, ::-1], classes=CLASSES[::-1]
    )
    one, other = measure_calibration(model), measure_calibration(turned)
    for key in ("ece", "aece", "cwece", "mce", "nll", "brier", "accuracy"):
        assert getattr(one, key) == pytest.approx(getattr(other, key), rel=1e-12), key


def test_a_temperature_mends_what_a_factor_broke() -> None:
    model, held_out = predictions(scale=7.0), predictions("val", 5000, 1, scale=7.0)
    report = measure_calibration(model, held_out)
    fine = measure_calibration(predictions(scale=1.0), predictions("val", 5000, 1, scale=1.0))
    assert report.temperature is not None and fine.temperature is not None
    assert report.scaled is not None and fine.scaled is not None
    assert report.temperature == pytest.approx(7 * fine.temperature, rel=1e-6)
    assert (report.n_validation, report.warnings) == (5000, [])
    assert report.scaled.nll == pytest.approx(fine.scaled.nll)
    assert report.scaled.ece < report.ece


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["ant", "ant"], "all validation samples are of one class"),
        (["ant", "bee"], "the fit diverges: nearly all"),
        (["bee", "ant"], "the fit diverges: on the validation samples"),
        (["eel", "eel"], "no validation sample is of a class"),
    ],
)
def test_a_fit_that_fails_is_said_and_the_unscaled_figures_stay(labels: list[str], message: str) -> None:
    held_out = build_predictions(
        "val", np.array(["a", "b"]), np.array(labels), logits=np.eye(2, 4), classes=CLASSES
    )
    report = measure_calibration(predictions(), held_out)
    assert (report.temperature, report.scaled) == (None, None)
    (warning,) = report.warnings
    assert warning.startswith("no temperature: ") and message in warning
    assert report.ece == measure_calibration(predictions()).ece


@pytest.mark.parametrize(
    ("model", "held_out", "message"),
    [
        (of_one("ant", answers=["ant"]), None, "m: has predictions without `logits`"),
        (of_one("eel", logits=np.ones((1, 2)), classes=("a", "b")), None, "none of its 1 samples is of a class that"),
        (predictions(), predictions(), "holds the test samples of test"),
        (predictions(), predictions("val", known=("ant", "bee")), r"knows other classes than test \(cow, dog\)"),
    ],
)  # fmt: skip
def test_what_cannot_be_measured_is_refused(
    model: Predictions, held_out: Predictions | None, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        measure_calibration(model, held_out)


def test_shared_ids_are_said() -> None:
    report = measure_calibration(predictions("x"), predictions("x", 500, 3))
    assert report.warnings == ["500 ids of the validation samples are ids of test samples too"]


def test_a_true_class_of_probability_0_has_no_likelihood() -> None:
    logits = np.array([[0.0, -math.inf], [0.0, 1.0]])
    model = build_predictions(
        "m", np.array(["1", "2"]), np.array(["b", "b"]), logits=logits, classes=("a", "b")
    )
    report = measure_calibration(model)
    assert report.nll is None
    assert "infinite" in report.warnings[0]
    assert '"nll":null' in report.model_dump_json()


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_confidence_1_of_logits_whose_exponential_overflows(dtype: type) -> None:
    logits, labels = 6e4 * np.eye(3, dtype=dtype)[[0, 1, 2, 0]], np.array(["a", "b", "c", "b"])
    report = measure_calibration(
        build_predictions("m", np.arange(4).astype(str), labels, logits=logits, classes=("a", "b", "c"))
    )
    assert (report.accuracy, report.ece, report.aece, report.mce) == (0.75, 0.25, 0.25, 0.25)
    # Of the one wrong answer: two classes are each a whole unit off, in one of four samples.
    assert (report.cwece, report.brier) == pytest.approx((2 / 4 / 3, 2 / 4))
    assert report.nll == pytest.approx(float(dtype(6e4)) / 4)
