"""The report on one model: accuracy, and the calibration of its confidence, before and after a temperature.

Figures are fractions, over the test samples of the classes that the model knows unless a field says
otherwise.
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
from mptctl.evaluation.pairing.sanity import probabilities
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
        description="with --temperature fit: what logits are divided by in `scaled`; null where there is none"
    )
    n_validation: int | None = Field(description="validation samples that it was fitted on")
    scaled: CalibrationFigures | None = Field(description="the figures with that temperature")
    warnings: list[str] = Field(description="what a reader of the numbers should know")


def measure_calibration(
    model: Predictions, validation: Predictions | None = None, warnings: Sequence[str] = ()
) -> CalibrationReport:
    """Measure one model.

    Args:
        model: its predictions on the test set, with logits.
        validation: its predictions on held-out samples, with logits, for a temperature; None: no temperature
            is asked for.
        warnings: what else is known of it; the report's own warnings follow.

    Raises:
        DataError: no logits, no sample of a class that the model knows, or a validation part that is of other
            classes or is the test set.
    """
    remarks = [*warnings, *check_spelling([model]), *probabilities([model])]
    check_counted([model])
    logits, truth, right = _known(model)
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
    temperature = held_out = scaled = None
    if validation is not None:
        remarks += _doubts(model, validation)
        held_out_logits, held_out_truth, _ = _known(validation)
        held_out = len(held_out_truth)
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
        n_validation=held_out,
        scaled=scaled,
        warnings=remarks,
    )


def _known(model: Predictions) -> tuple[NDArray[Any], NDArray[np.int64], NDArray[np.bool_]]:
    """Logits (n, C), columns of the true classes (n,) and right answers (n,) of samples of known classes."""
    logits, names = model.scored
    classes = np.array(names, dtype=np.str_)
    order = np.argsort(classes)
    at = np.searchsorted(classes, model.labels, sorter=order).clip(max=len(classes) - 1)
    column = order[at].astype(np.int64)
    known = classes[column] == model.labels
    # Logits of known classes alone stay where they are, possibly on disk.
    return (logits if known.all() else logits[known]), column[known], (model.preds == model.labels)[known]


def _figures(
    logits: NDArray[Any], truth: NDArray[np.int64], right: NDArray[np.bool_], temperature: float = 1.0
) -> CalibrationFigures:
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


def _doubts(model: Predictions, validation: Predictions) -> list[str]:
    """Warnings on a validation part; DataError where no temperature for the model can be fitted on it."""
    if validation.classes is not None and set(validation.classes) != set(model.classes or ()):
        strange = sorted(set(validation.classes) ^ set(model.classes or ()))
        raise DataError(
            f"{validation.name}: knows other classes than {model.name} ({first(strange)}); "
            "write predictions of the same model"
        )
    shared = len(np.intersect1d(model.ids, validation.ids))
    if shared == len(model):
        raise DataError(
            f"{validation.name}: holds the test samples of {model.name}; fit the temperature on samples held "
            "out of both training and testing"
        )
    return [f"{shared:,} ids of the validation samples are ids of test samples too"] * bool(shared)
