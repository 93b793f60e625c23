"""The report on one model: accuracy, and the calibration of its confidence, before and after a temperature.

Figures are fractions. Unless a field says otherwise, they are over the test samples of classes that the model
knows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from mptctl.errors import DataError
from mptctl.evaluation.calibration.bins import calibrate
from mptctl.evaluation.calibration.probabilities import score_probabilities
from mptctl.evaluation.calibration.temperature import fit_temperature
from mptctl.evaluation.flip_report import Bin
from mptctl.evaluation.pairing.sanity import probability_warnings
from mptctl.evaluation.reading.columns import first
from mptctl.evaluation.reading.predictions import Predictions
from mptctl.evaluation.reading.spelling import check_counted, check_spelling
from mptctl.files import Model


class CalibrationFigures(Model):
    """Calibration errors and scores of one model."""

    ece: float = Field(description="expected calibration error, 15 bins of equal width")
    aece: float = Field(description="adaptive calibration error, 15 bins of equal count")
    cwece: float = Field(
        description="class-wise calibration error, 15 bins of equal width, mean over classes"
    )
    mce: float = Field(description="maximum calibration error: the largest gap of the bins of `ece`")
    nll: float | None = Field(
        description="mean of -log p of the true class; null where one has probability 0, and it is infinite"
    )
    brier: float = Field(description="mean of the squared error of all probabilities of a sample, 0 to 2")
    reliability: list[Bin] = Field(description="the bins of `ece`")


class CalibrationReport(CalibrationFigures):
    """The report on one model, as `mptctl evaluate MODEL` prints it."""

    name: str = Field(description="where its predictions came from")
    classes: int = Field(description="number of classes it can predict")
    n: int = Field(description="test samples of the classes it knows")
    accuracy: float = Field(description="right predictions / n")
    n_all: int = Field(description="all test samples")
    er_all: float = Field(description="error rate on all test samples; one of an unknown class is an error")
    temperature: float | None = Field(
        description="with --temperature fit: divisor of the logits in `scaled`; otherwise null"
    )
    n_validation: int | None = Field(description="validation samples that it was fitted on")
    scaled: CalibrationFigures | None = Field(description="the figures with that temperature")
    warnings: list[str] = Field(description="notes on these numbers")


def measure_calibration(
    model: Predictions, validation: Predictions | None = None, warnings: Sequence[str] = ()
) -> CalibrationReport:
    """Measure the accuracy and the calibration of one model.

    Args:
        model: predictions on the test set, with logits.
        validation: predictions of the same model on held-out samples, with logits, to fit a temperature on;
            None: no temperature is fitted. A fit that fails is a warning of the report.
        warnings: of the caller, on the model; the report's own warnings follow.

    Raises:
        DataError: there are no logits, no sample is of a class that the model knows, or the validation part
            has other classes or holds all test samples.
    """
    remarks = [*warnings, *check_spelling([model]), *probability_warnings([model])]
    check_counted([model])
    logits, truth, right = _samples_of_known_classes(model)
    if not len(truth):
        raise DataError(
            f"{model.name}: none of its {len(model)} samples is of a class that it knows; test on its own "
            "classes"
        )
    if len(truth) < len(model):
        remarks.append(
            f"{len(model) - len(truth):,} of {len(model):,} test samples are of classes that the model does "
            "not know; they count in the error on all test samples alone"
        )
    figures = _figures(logits, truth, right)
    if figures.nll is None:
        remarks.append("a true class has probability 0, so that the negative log-likelihood is infinite")
    temperature = None
    n_validation = None
    scaled = None
    if validation is not None:
        remarks += _check_validation(model, validation)
        held_out_logits, held_out_truth, _ = _samples_of_known_classes(validation)
        n_validation = len(held_out_truth)
        temperature, failure = fit_temperature(held_out_logits, held_out_truth)
        if temperature is None:
            remarks.append(f"no temperature: {failure}; the figures are unscaled")
        else:
            scaled = _figures(logits, truth, right, temperature)
    return CalibrationReport(
        **figures.model_dump(),
        name=model.name,
        classes=logits.shape[1],
        n=len(truth),
        accuracy=float(right.mean()),
        n_all=len(model),
        er_all=1 - int(right.sum()) / len(model),
        temperature=temperature,
        n_validation=n_validation,
        scaled=scaled,
        warnings=remarks,
    )


def _samples_of_known_classes(
    model: Predictions,
) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.bool_]]:
    """Select the n samples of classes that a model knows.

    Returns:
        The logits (n, C), the column of the true class (n,), and True where the answer is right (n,).

    Raises:
        DataError: the model has no logits.
    """
    logits, names = model.scored
    column_of = {name: column for column, name in enumerate(names)}
    column = np.array([column_of.get(label, -1) for label in model.labels.tolist()], dtype=np.int64)
    is_known = column >= 0
    if not is_known.all():  # else logits, which may be on disk, are not copied
        logits = logits[is_known]
    return logits, column[is_known], (model.preds == model.labels)[is_known]


def _figures(
    logits: NDArray[Any], truth: NDArray[np.int64], right: NDArray[np.bool_], temperature: float = 1.0
) -> CalibrationFigures:
    """Compute the figures of (n, C) logits at a temperature; `nll` is None where it would be infinite."""
    scores = score_probabilities(logits, truth, temperature)
    calibration = calibrate(scores.confidence, right)
    return CalibrationFigures(
        ece=calibration.ece,
        aece=calibration.aece,
        cwece=scores.cwece,
        mce=calibration.mce,
        nll=scores.nll if np.isfinite(scores.nll) else None,
        brier=scores.brier,
        reliability=calibration.bins,
    )


def _check_validation(model: Predictions, validation: Predictions) -> list[str]:
    """Check that a validation part fits a model's test predictions.

    Returns:
        A warning where the two share ids; else nothing.

    Raises:
        DataError: the validation part has other classes, or holds all test samples.
    """
    if validation.classes is not None and set(validation.classes) != set(model.classes or ()):
        in_one_only = sorted(set(validation.classes) ^ set(model.classes or ()))
        raise DataError(
            f"{validation.name}: knows other classes than {model.name} ({first(in_one_only)}); "
            "write predictions of the same model"
        )
    shared = len(np.intersect1d(model.ids, validation.ids))
    if shared == len(model):
        raise DataError(
            f"{validation.name}: holds the test samples of {model.name}; fit the temperature on samples held "
            "out of both training and testing"
        )
    return [f"{shared:,} ids of the validation samples are ids of test samples too"] if shared else []
