"""A test set in memory: makes predictions from arrays of any library."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError
from mptctl.evaluation.reading.arrays import as_array
from mptctl.evaluation.reading.columns import as_text
from mptctl.evaluation.reading.named_arrays import RowNames, named_array, order_columns
from mptctl.evaluation.reading.predictions import Predictions, build_predictions


@dataclass(frozen=True, eq=False)
class InMemory:
    """The samples and classes that the models of one comparison have in common.

    Attributes:
        ids: (N,) text.
        labels: (N,) true classes as text; empty text where there are none.
        classes: the new model's classes, in the order of its logits; None where they are not given.
        old_classes: the old classes, in the order of the old model's logits; None where they are not given.
        row_names: of the samples; tables with an index must have these.
        labelled: there are true classes.
    """

    ids: NDArray[np.str_]
    labels: NDArray[np.str_]
    classes: tuple[str, ...] | None = None
    old_classes: tuple[str, ...] | None = None
    row_names: RowNames = field(default_factory=RowNames)
    labelled: bool = True

    @classmethod
    def of(cls, labels: Any, ids: Any = None, classes: Any = None, old_classes: Any = None) -> InMemory:
        """Read arrays or lists of any library.

        Args:
            labels: (N,) true classes.
            ids: (N,) of the samples; None: their places from 0.
            classes: the new model's classes; None: not given.
            old_classes: the old model's classes; None: not given.

        Raises:
            DataError: a value is no array of labels, or `ids` and `labels` do not fit.
        """
        row_names = RowNames()
        truth = as_text(row_names.checked(named_array(labels, "labels"), "labels"), "labels", "labels")
        if ids is None:
            names = np.arange(len(truth)).astype(np.str_)
        else:
            names = as_text(row_names.checked(named_array(ids, "ids"), "ids"), "ids", "ids")
        _check_length("ids", names, truth)
        new_list = None if classes is None else tuple(as_names(classes, "classes").tolist())
        old_list = None if old_classes is None else tuple(as_names(old_classes, "old_classes").tolist())
        return cls(names, truth, new_list, old_list, row_names)

    @classmethod
    def unlabelled(cls, ids: Any, classes: Any = None, old_classes: Any = None) -> InMemory:
        """Read the ids of samples without true classes; arguments and errors as `of`."""
        test = cls.of(ids, ids, classes, old_classes)
        return replace(test, labels=np.zeros_like(test.labels), labelled=False)

    def predictions(
        self, name: str, value: Any, *, is_old: bool = False, counted: NDArray[np.bool_] | None = None
    ) -> Predictions:
        """Make the predictions of one model.

        Args:
            name: of the model, for messages and reports.
            value: (N,) answers, or (N, C) logits. If it has an index, it must be that of the labels. If its
                columns have names, these are the classes.
            is_old: it is the old model, or another training of it: its columns are `old_classes`.
            counted: (N,) True for samples that count; None: all count.

        Raises:
            DataError: rows or columns do not fit the samples or the classes, or as `build_predictions`.
            NonFiniteError: as `build_predictions`.
        """
        table = named_array(value, name)
        values = self.row_names.checked(table, name)
        _check_length(name, values, self.labels, "labels" if self.labelled else "samples")
        ids, labels = self.ids, self.labels
        if counted is not None:
            ids, labels, values = ids[counted], labels[counted], values[counted]
        truth = labels if self.labelled else None
        if values.ndim == 1:
            # With labels, the comparison is told which classes are old; here they are the model's own.
            of_old = None if self.labelled else self.old_classes
            return build_predictions(name, ids, truth, values, None, of_old if is_old else self.classes)
        lists = [self.old_classes, self.classes] if is_old else [self.classes]
        known = [names for names in lists if names is not None]
        logits, classes = order_columns(replace(table, values=values), known, name, some=is_old)
        if classes is None:
            classes = self._classes_of_old(name, logits) if is_old else self.classes
        return build_predictions(name, ids, truth, None, logits, classes)

    def _classes_of_old(self, name: str, old: NDArray[Any]) -> tuple[str, ...] | None:
        """Choose the classes of the old model's columns, which have no names, by their number.

        Args:
            name: of the old model, for messages.
            old: (N, C) logits.

        Returns:
            `old_classes` or `classes`, whichever has C names; None where neither is given.

        Raises:
            DataError: neither list has C names, or both have and they differ.
        """
        lists = [names for names in (self.old_classes, self.classes) if names is not None]
        if not lists:
            return None
        fitting = [names for names in lists if len(names) == old.shape[1]]
        if not fitting:
            raise DataError(
                f"{name}: logits of {old.shape[1]} columns, for which neither `classes` nor `old_classes` "
                "has the names; give old_classes, the label of each column"
            )
        if len(set(fitting)) > 1:
            raise DataError(
                f"{name}: `classes` and `old_classes` are the same labels in two orders, or two lists of one "
                "length; give both in the order of the logits"
            )
        return fitting[0]


def as_names(value: Any, what: str) -> NDArray[np.str_]:
    """Read labels, ids or class names, in a list or an array of any library, as text.

    Args:
        value: (N,) integers or text.
        what: the argument, for messages.

    Raises:
        DataError: it is anything else.
    """
    return as_text(as_array(value, what), what, what)


def _check_length(name: str, values: NDArray[Any], labels: NDArray[np.str_], what: str = "labels") -> None:
    """Raise DataError where there is not one value, or row of values, for each label."""
    if len(values) != len(labels):
        raise DataError(f"{name}: {len(values)} rows for {len(labels)} {what}; give one for each sample")
