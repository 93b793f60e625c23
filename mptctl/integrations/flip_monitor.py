"""`FlipMonitor`: counts the flips of a model in training against the old model, after each validation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError
from mptctl.evaluation.evaluate import ComparisonRequest, compare
from mptctl.evaluation.flip_report import FlipReport
from mptctl.evaluation.reading.arrays import as_array
from mptctl.evaluation.reading.columns import as_text, first
from mptctl.evaluation.reading.in_memory import InMemory
from mptctl.evaluation.reading.logits import first_maximum, refuse_one_column
from mptctl.evaluation.reading.named_arrays import NamedArray, RowNames, named_array, order_columns
from mptctl.evaluation.reading.predictions import build_predictions, read_predictions
from mptctl.evaluation.reading.workspace import workspace
from mptctl.machine.facts import rank
from mptctl.report.documents.flips_object import Report
from mptctl.report.media.numbers import format_count, format_interval, percent
from mptctl.report.trackers.flip_metrics import flip_metrics

Say = Callable[[str], None] | None
# Label of a sample that is ignored: the `ignore_index` of torch and Hugging Face.
IGNORED = "-100"


def _find_largest_number(labels: Iterable[str]) -> int:
    """The largest label that is an integer from 0; -1 if there is none."""
    return max((int(label) for label in labels if label.isascii() and label.isdigit()), default=-1)


class FlipMonitor:
    """Counts flips in any training loop.

    Call `update` for each batch of a validation and `finish` after the last, or call the monitor itself with
    the whole validation. With torch.distributed, `finish` merges the predictions of all processes, which need
    ids.

    Args:
        labels: (N,) true classes of the validation samples, in a list or an array of any library: text, or
            integers from 0. A sample with the label -100 is ignored, as in torch's losses.
        old: (N,) predictions or (N, C_old) logits of the old model for these samples.
        ids: (N,) names of the samples; default: their numbers, from 0.
        classes: classes of the model in training, in the order of its logits; default: numbers from 0.
        old_classes: the old classes, in the order of `old`'s columns if it is logits of as many columns.
            Default: the classes of the columns of `old`, or all labels.
        say: called with one line after each validation, in the first process only; None: no line.

    Attributes:
        history: the report of each validation, as `mptctl evaluate --json` prints it.

    Raises:
        DataError, NonFiniteError: arrays cannot be read or do not fit each other.
    """

    def __init__(
        self,
        labels: Any,
        old: Any,
        *,
        ids: Any = None,
        classes: Any = None,
        old_classes: Any = None,
        say: Say = print,
    ) -> None:
        labels = list(labels) if isinstance(labels, Iterator) else labels
        values = as_array(labels, "labels")
        are_numbers = len(values) > 0 and not isinstance(values[:1].tolist()[0], str | bytes)
        if are_numbers:
            _read_label_numbers(values, "labels")  # for its refusal of numbers that are no labels
        test = InMemory.of(labels, ids, classes, old_classes)
        # Samples that are ignored are left out here; they keep their numbers.
        predictions = test.predictions("old", old, is_old=True, counted=test.labels != IGNORED)
        self._old = replace(predictions, logits=None)
        self._classes, self._old_classes, self._say = test.classes, test.old_classes, say
        self._number_of_id = {name: number for number, name in enumerate(test.ids.tolist())}
        # Without `classes`, logits need a column for each label.
        self._largest_label = _find_largest_number(predictions.table.labels)
        self.history: list[FlipReport] = []
        self.reset()

    @classmethod
    def from_file(
        cls, path: str | Path, *, classes: Any = None, old_classes: Any = None, say: Say = print
    ) -> FlipMonitor:
        """Make a monitor from a file with labels, ids and the old model's predictions.

        Args:
            path: a predictions file, such as ``evaluate --save-predictions`` writes.
            classes, old_classes, say: as for the class.

        Raises:
            UsageError, DataError, NonFiniteError, StorageError: as for `mptctl evaluate`.
        """
        with workspace():
            old = read_predictions(Path(path)).in_memory()
        if old_classes is None:
            old_classes = old.classes
        monitor = cls(old.labels, old.preds, ids=old.ids, classes=classes, old_classes=old_classes, say=say)
        monitor._old = replace(monitor._old, name=old.name)
        return monitor

    def __repr__(self) -> str:
        last = f", the last {self.history[-1]!r}" if self.history else ""
        return f"<FlipMonitor: {len(self._old):,} samples, {len(self.history):,} validations{last}>"

    def __call__(self, new: Any, ids: Any = None) -> Report:
        """Compare a whole validation at once, as `update` and `finish` do; earlier batches are forgotten."""
        self.reset()
        self.update(new, ids)
        return self.finish()

    def reset(self) -> None:
        """Forget the batches since the last `finish`."""
        self._predictions: dict[int, str] = {}  # predicted label by the sample's number

    def update(self, new: Any, ids: Any = None) -> None:
        """Add the predictions of one batch.

        Args:
            new: (B,) predictions or (B, C) logits, in a list or an array of any library, on any device.
            ids: (B,) names of the samples; of a repeated sample the last prediction counts. Without ids,
                batches must come in the order of the labels.

        Raises:
            DataError: an id is unknown, or there are more predictions than samples.
            NonFiniteError: rows of logits are NaN.
        """
        table = named_array(new, "new")
        if ids is None:
            if table.rows is not None and not isinstance(table.rows, range):
                raise DataError(
                    "new: has an index, which may name samples; give ids, or an array (.to_numpy())"
                )
            predictions = self._to_labels(table)
            numbers = self._next_numbers(len(predictions))
        else:
            row_names = RowNames()
            names = as_text(row_names.checked(named_array(ids, "ids"), "ids"), "ids", "ids").tolist()
            row_names.checked(table, "new")
            predictions = self._to_labels(table)
            numbers = self._find_numbers(names, len(predictions))
        self._predictions.update(zip(numbers, predictions.tolist(), strict=True))

    def _next_numbers(self, count: int) -> list[int]:
        """The numbers of the next samples, which have no ids; DataError if there are not so many."""
        begin = len(self._predictions)
        if begin + count > len(self._number_of_id):
            raise DataError(
                f"new: {begin + count} predictions for {len(self._number_of_id)} stored samples; call finish "
                "after each validation, or give ids"
            )
        return list(range(begin, begin + count))

    def _find_numbers(self, names: list[str], count: int) -> list[int]:
        """The numbers of the samples of these ids; DataError if they are not ``count`` known ids."""
        if len(names) != count:
            raise DataError(f"new: {count} rows for {len(names)} ids; give one for each")
        if unknown := [name for name in names if name not in self._number_of_id]:
            raise DataError(
                f"new: id {first(unknown)} is none of the {len(self._number_of_id)} stored ones; validate on "
                "the same samples"
            )
        return [self._number_of_id[name] for name in names]

    def finish(self) -> Report:
        """Compare the predictions since the last `finish`, append the report to `history`, and call `say`.

        Returns:
            The same report with its tables, which `print` shows, and `gate`.

        Raises:
            DataError: samples have no prediction, or names of classes do not match.
        """
        predictions = _gather_from_processes(self._predictions)
        self.reset()
        old = self._old
        missing = [name for name in old.ids.tolist() if self._number_of_id[name] not in predictions]
        if missing:
            raise DataError(
                f"new: {len(missing)} of {len(old)} samples have no prediction ({first(missing)}); validate "
                "on all of them, and in several processes give ids"
            )
        labels = np.array([predictions[self._number_of_id[name]] for name in old.ids.tolist()], dtype=np.str_)
        new = build_predictions("new", old.ids, old.labels, labels, None, self._classes)
        with workspace():
            report = compare(old, new, ComparisonRequest(old_classes=self._old_classes, listed_flips=0))
        self.history.append(report)
        if self._say is not None and rank() == 0:
            self._say(self.line())
        return Report(report)

    def line(self) -> str:
        """Describe NFR and error of the last validation in one line. DataError before the first one."""
        nfr, error = self._last().rates.nfr, self._last().new.errors.all_classes
        return (
            f"NFR {percent(nfr.value)} ({format_count(nfr)}, 95 % interval {format_interval(nfr.ci95)}), "
            f"error {percent(error.value)} ({format_count(error)})"
        )

    def metrics(self) -> dict[str, float]:
        """Figures of the last validation by name, rates as fractions. DataError before the first one.

        A rate without samples is left out.
        """
        return flip_metrics(self._last())

    def compute_metrics(self, prediction: Any) -> dict[str, float]:
        """Compare one validation of a Hugging Face trainer; give this method to it as `compute_metrics`.

        Args:
            prediction: its `predictions` are logits (N, C), or a tuple that begins with them, in the order of
                the monitor's labels; its `label_ids` are columns of the logits, or -100.

        Returns:
            The same as `metrics`.

        Raises:
            DataError: labels are no columns of the logits, or not the monitor's labels in their order.
        """
        logits = prediction.predictions
        logits = as_array(logits[0] if isinstance(logits, tuple) else logits, "new")
        if prediction.label_ids is not None:
            self._check_labels(as_array(prediction.label_ids, "label_ids"))
        self(logits)
        return self.metrics()

    def _last(self) -> FlipReport:
        """The report of the last validation; DataError before the first one."""
        if not self.history:
            raise DataError("there was no validation yet; call finish after one")
        return self.history[-1]

    def _to_labels(self, new: NamedArray) -> NDArray[np.str_]:
        """Convert (B,) predictions or (B, C) logits to (B,) predicted labels.

        Raises:
            DataError: the columns of the logits do not fit the classes or labels.
            NonFiniteError: logits are NaN.
        """
        if new.values.ndim == 1:
            return as_text(new.values, "pred", "new")
        refuse_one_column(new.values, "new")
        known = [] if self._classes is None else [self._classes]
        logits, column_names = order_columns(new, known, "new")
        classes = column_names or self._classes
        predicted_columns = first_maximum(logits, "new")
        if classes is None:  # the label of a column is its number
            if self._largest_label >= logits.shape[1]:
                raise DataError(
                    f"labels: {self._largest_label} is no column of the logits, 0..{logits.shape[1] - 1}; "
                    "count labels from 0, mark samples to be ignored by -100, or give classes"
                )
            return predicted_columns.astype(np.str_)
        if len(classes) != logits.shape[1]:
            raise DataError(
                f"new: logits of {logits.shape[1]} columns for {len(classes)} `classes`; name each column "
                "once"
            )
        return np.array(classes, dtype=np.str_)[predicted_columns]

    def _check_labels(self, label_ids: NDArray[Any]) -> None:
        """Raise DataError unless (N,) labels, as columns of the logits, are the stored labels in order."""
        columns = _read_label_numbers(label_ids, "label_ids")
        names = self._classes
        if names is not None and (beyond := columns[columns >= len(names)].tolist()):
            raise DataError(
                f"label_ids: {len(beyond)} of {len(columns)} are no column of the logits, "
                f"0..{len(names) - 1} ({first(map(str, beyond))}); give `classes`, the label of each column"
            )
        given = [
            str(column) if names is None or column == -100 else names[column] for column in columns.tolist()
        ]
        label_of_id = dict(zip(self._old.ids.tolist(), self._old.labels.tolist(), strict=True))
        stored = [label_of_id.get(name, IGNORED) for name in self._number_of_id]
        wrong = sum(label != right for label, right in zip_longest(given, stored))
        if wrong:
            raise DataError(
                f"label_ids: {wrong} of {len(stored)} are not the stored labels of these samples; validate "
                "on the same samples in the same order"
            )


def _read_label_numbers(values: NDArray[Any], name: str) -> NDArray[np.int64]:
    """Check that values are integers from 0, or -100, and return them as int64.

    Raises:
        DataError: there are other values. A negative index would count from the end, a float would be cut.
    """
    given = values.tolist()
    if wrong := [v for v in given if isinstance(v, bool) or not isinstance(v, int)]:
        raise DataError(
            f"{name}: {len(wrong)} of {len(given)} are no integers ({first(map(repr, wrong))}); give integers"
        )
    if wrong := [v for v in given if v < 0 and v != -100]:
        raise DataError(
            f"{name}: {len(wrong)} of {len(given)} are negative ({first(map(str, wrong))}); count from 0, or "
            "mark samples to be ignored by -100"
        )
    return np.array(given, dtype=np.int64)


def _gather_from_processes(predictions: dict[int, str]) -> dict[int, str]:
    """Merge the predictions of all processes, if torch.distributed runs; else return those of this one."""
    torch = sys.modules.get("torch")  # torch.distributed cannot run unless torch is imported
    if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return predictions
    shares: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(shares, predictions)
    return {number: label for share in shares for number, label in share.items()}
