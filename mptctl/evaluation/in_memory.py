"""A test set in memory: arrays of any library, as predictions that a comparison takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError
from mptctl.evaluation.arrays import as_array
from mptctl.evaluation.columns import as_text
from mptctl.evaluation.predictions import Predictions, build_predictions


@dataclass(frozen=True, eq=False)
class InMemory:
    """What the models of one comparison have in common.

    Attributes:
        ids, labels: (N,) text.
        classes: what the new model can answer, in the order of its logits; None where nobody says.
        old_classes: what counts as old, in the order of the old model's logits; None where nobody says.
    """

    ids: NDArray[np.str_]
    labels: NDArray[np.str_]
    classes: tuple[str, ...] | None = None
    old_classes: tuple[str, ...] | None = None

    @classmethod
    def of(cls, labels: Any, ids: Any = None, classes: Any = None, old_classes: Any = None) -> InMemory:
        """Read arrays; without `ids` samples are called by their places, from 0. DataError where they do not fit."""
        truth = _text(labels, "labels")
        names = _text(np.arange(len(truth)) if ids is None else ids, "ids")
        _check_length("ids", names, truth)
        known = None if classes is None else tuple(_text(classes, "classes").tolist())
        before = None if old_classes is None else tuple(_text(old_classes, "old_classes").tolist())
        return cls(names, truth, known, before)

    def predictions(self, name: str, value: Any, *, is_old: bool = False) -> Predictions:
        """One model's predictions.

        Args:
            name: of the model, for messages and reports.
            value: (N,) answers, or (N, C) logits.
            is_old: it is the old model, or another training of it, whose columns `old_classes` names.

        Raises:
            DataError, NonFiniteError: as `build_predictions`, or columns that nobody names, or two lists.
        """
        found = as_array(value, name)
        _check_length(name, found, self.labels)
        columns = self._old_columns(name, found) if is_old else self.classes
        answers, logits = (found, None) if found.ndim == 1 else (None, found)
        return build_predictions(name, self.ids, self.labels, answers, logits, columns)

    def _old_columns(self, name: str, old: NDArray[Any]) -> tuple[str, ...] | None:
        """What the old model's columns are called; None where it gives answers, or nobody says."""
        lists = [names for names in (self.old_classes, self.classes) if names is not None]
        if old.ndim == 1 or not lists:
            return None
        fitting = [names for names in lists if len(names) == old.shape[1]]
        if not fitting:
            raise DataError(
                f"{name}: logits of {old.shape[1]} columns, for which neither `classes` nor `old_classes` has the "
                "names; give old_classes, the label of each column"
            )
        if fitting[0] != fitting[-1]:
            raise DataError(
                f"{name}: `classes` and `old_classes` are the same labels in two orders, or two lists of one "
                "length; give both in the order of the logits"
            )
        return fitting[0]


def _text(value: Any, what: str) -> NDArray[np.str_]:
    return as_text(as_array(value, what), what, what)


def _check_length(name: str, values: NDArray[Any], labels: NDArray[np.str_]) -> None:
    if len(values) != len(labels):
        raise DataError(f"{name}: {len(values)} rows for {len(labels)} labels; give one for each sample")
