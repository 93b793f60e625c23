"""A test set in memory: arrays of any library, as predictions that a comparison takes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError
from mptctl.evaluation.reading.arrays import as_array
from mptctl.evaluation.reading.columns import as_text
from mptctl.evaluation.reading.named_arrays import NamedArray, RowOrder, columns_of, named_array
from mptctl.evaluation.reading.predictions import Predictions, build_predictions


@dataclass(frozen=True, eq=False)
class InMemory:
    """The samples and classes that the models of one comparison have in common.

    Attributes:
        ids, labels: (N,) text.
        classes: what the new model can answer, in the order of its logits; None where nobody says.
        old_classes: what counts as old, in the order of the old model's logits; None where nobody says.
        order: of the rows; tables with an index are brought into it.
    """

    ids: NDArray[np.str_]
    labels: NDArray[np.str_]
    classes: tuple[str, ...] | None = None
    old_classes: tuple[str, ...] | None = None
    order: RowOrder = field(default_factory=RowOrder)

    @classmethod
    def of(cls, labels: Any, ids: Any = None, classes: Any = None, old_classes: Any = None) -> InMemory:
        """Read arrays, by default with places from 0 as `ids`; DataError where they do not fit."""
        order = RowOrder()
        truth = as_text(order.in_order(named_array(labels, "labels"), "labels"), "labels", "labels")
        if ids is None:
            names = np.arange(len(truth)).astype(np.str_)
        else:
            names = as_text(order.in_order(named_array(ids, "ids"), "ids"), "ids", "ids")
        _check_length("ids", names, truth)
        known = None if classes is None else tuple(names_of(classes, "classes").tolist())
        before = None if old_classes is None else tuple(names_of(old_classes, "old_classes").tolist())
        return cls(names, truth, known, before, order)

    def predictions(
        self, name: str, value: Any, *, is_old: bool = False, counted: NDArray[np.bool_] | None = None
    ) -> Predictions:
        """The predictions of one model.

        Args:
            name: of the model, for messages and reports.
            value: (N,) answers, or (N, C) logits. Rows with an index are joined with those of the labels by
                it, and columns with names are the classes of these names.
            is_old: it is the old model, or another training of it, whose columns `old_classes` names.
            counted: (N,) samples that count; None: all do.

        Raises:
            DataError, NonFiniteError: as `build_predictions`, or columns that nobody names, or two lists.
        """
        table = named_array(value, name)
        found = self.order.in_order(table, name)
        _check_length(name, found, self.labels)
        ids, labels = self.ids, self.labels
        if counted is not None:
            ids, labels, found = ids[counted], labels[counted], found[counted]
        if found.ndim == 1:
            columns = None if is_old else self.classes
            return build_predictions(name, ids, labels, found, None, columns)
        table = NamedArray(found, None, table.columns, table.numbered)
        lists = [names for names in (self.old_classes if is_old else None, self.classes) if names is not None]
        logits, named = columns_of(table, lists, name, some=is_old)
        if named is None:
            named = self._old_columns(name, logits) if is_old else self.classes
        return build_predictions(name, ids, labels, None, logits, named)

    def _old_columns(self, name: str, old: NDArray[Any]) -> tuple[str, ...] | None:
        """The classes of the old model's columns where they have no names; None where nobody says."""
        lists = [names for names in (self.old_classes, self.classes) if names is not None]
        if not lists:
            return None
        fitting = [names for names in lists if len(names) == old.shape[1]]
        if not fitting:
            raise DataError(
                f"{name}: logits of {old.shape[1]} columns, for which neither `classes` nor `old_classes` "
                "has the names; give old_classes, the label of each column"
            )
        if fitting[0] != fitting[-1]:
            raise DataError(
                f"{name}: `classes` and `old_classes` are the same labels in two orders, or two lists of one "
                "length; give both in the order of the logits"
            )
        return fitting[0]


def names_of(value: Any, what: str) -> NDArray[np.str_]:
    """Labels, ids or class names in a list or an array of any library, as text."""
    return as_text(as_array(value, what), what, what)


def _check_length(name: str, values: NDArray[Any], labels: NDArray[np.str_]) -> None:
    if len(values) != len(labels):
        raise DataError(f"{name}: {len(values)} rows for {len(labels)} labels; give one for each sample")
