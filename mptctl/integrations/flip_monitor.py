"""`FlipMonitor`: what a model in training breaks of what the old one got right, after each validation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
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
from mptctl.evaluation.reading.named_arrays import NamedArray, RowOrder, named_array, order_columns
from mptctl.evaluation.reading.predictions import (
    Predictions,
    build_predictions,
    first_maximum,
    read_predictions,
    refuse_one_column,
)
from mptctl.machine.facts import rank
from mptctl.report.media.numbers import format_count, format_interval, percent
from mptctl.report.trackers.flip_metrics import flip_metrics

Say = Callable[[str], None] | None
# The label of a sample that counts nowhere, torch's and Hugging Face's `ignore_index`.
IGNORED = "-100"


class FlipMonitor:
    """Counts flips in any training loop: `update` for each batch, `finish` after the last, or one call.

    Where torch.distributed runs, `finish` puts the answers of all processes together; they need ids for that.

    Args:
        labels: (N,) true classes of the validation samples, in a list or an array of any library: text, or
            integers from 0. A sample whose label is -100 counts nowhere, as in torch's losses.
        old: (N,) the old model's answers to them, or (N, C_old) its logits.
        ids: (N,) names of the samples; default: their places, from 0.
        classes: the classes of the model in training, in the order of its logits; default: numbers from 0.
        old_classes: labels that count as old; where `old` is logits of as many columns, in their order.
            Default: what the columns of `old` stand for, or all labels.
        say: called with one line after each validation, in the first process alone; None: nothing is said.

    Attributes:
        history: the comparison after each validation, as `mptctl evaluate --json` prints it.

    Raises:
        DataError, NonFiniteError: arrays that cannot be read or do not fit.
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
        _check_sound(labels)
        test = InMemory.of(labels, ids, classes, old_classes)
        counted = test.labels != IGNORED
        answers = test.predictions("old", old, is_old=True, counted=counted)
        self._begin(answers, test.ids, test.classes, test.old_classes, say)

    @classmethod
    def from_file(
        cls, path: str | Path, *, classes: Any = None, old_classes: Any = None, say: Say = print
    ) -> FlipMonitor:
        """Take labels, ids and old answers from a file, such as ``evaluate --save-predictions`` writes.

        Raises:
            UsageError, DataError, NonFiniteError, StorageError: as for `mptctl evaluate`.
        """
        old = read_predictions(Path(path))
        test = InMemory.of(old.labels, old.ids, classes, old_classes)
        counted = test.labels != IGNORED
        if not counted.all():
            ids, labels, answers = (part[counted] for part in (old.ids, old.labels, old.preds))
            old = build_predictions(old.name, ids, labels, answers, None, old.classes)
        monitor = cls.__new__(cls)
        monitor._begin(old, test.ids, test.classes, test.old_classes, say)
        return monitor

    def _begin(
        self,
        old: Predictions,
        ids: NDArray[np.str_],
        classes: tuple[str, ...] | None,
        old_classes: tuple[str, ...] | None,
        say: Say,
    ) -> None:
        """Keep the old model's answers to the samples that count, and the ids of all in the stored order."""
        self._old = replace(old, logits=None)  # answers are all that is counted here
        self._classes, self._old_classes, self._say = classes, old_classes, say
        self._place = {name: i for i, name in enumerate(ids.tolist())}
        numbers = [int(label) for label in old.table.labels if label.isascii() and label.isdigit()]
        self._largest = max(numbers, default=-1)  # of labels that are columns' numbers
        self.history: list[FlipReport] = []
        self.reset()

    def __repr__(self) -> str:
        last = f", the last {self.history[-1]!r}" if self.history else ""
        return f"<FlipMonitor: {len(self._old):,} samples, {len(self.history):,} validations{last}>"

    def __call__(self, new: Any, ids: Any = None) -> FlipReport:
        """Take a whole validation at once; see `update` and `finish`."""
        self.reset()
        self.update(new, ids)
        return self.finish()

    def reset(self) -> None:
        """Forget the batches of a validation that did not come to its end."""
        self._answers: dict[int, str] = {}

    def update(self, new: Any, ids: Any = None) -> None:
        """Take one batch.

        Args:
            new: (B,) answers or (B, C) logits, in a list or an array of any library, on any device.
            ids: (B,) which samples these are; a sample that is there twice counts once. Without them the
                batches stand in the stored order.

        Raises:
            DataError: an id that is not stored, or more answers than samples.
            NonFiniteError: rows of logits that are NaN.
        """
        table, order = named_array(new, "new"), RowOrder()
        if ids is None:
            if table.rows is not None and not isinstance(table.rows, range):
                raise DataError(
                    "new: has an index, which may name samples; give ids, or an array (.to_numpy())"
                )
        else:
            names = as_text(order.in_order(named_array(ids, "ids"), "ids"), "ids", "ids").tolist()
        answers = self._as_text(replace(table, values=order.in_order(table, "new")))
        if ids is None:
            begin = len(self._answers)
            if begin + len(answers) > len(self._place):
                raise DataError(
                    f"new: {begin + len(answers)} predictions for {len(self._place)} stored samples; call "
                    "finish after each validation, or give ids"
                )
            places = list(range(begin, begin + len(answers)))
        else:
            if len(names) != len(answers):
                raise DataError(f"new: {len(answers)} rows for {len(names)} ids; give one for each")
            if strange := [name for name in names if name not in self._place]:
                raise DataError(
                    f"new: id {first(strange)} is none of the {len(self._place)} stored ones; validate on "
                    "the same samples"
                )
            places = [self._place[name] for name in names]
        self._answers.update(zip(places, answers.tolist(), strict=True))

    def finish(self) -> FlipReport:
        """Compare, keep the result in `history`, and say it in one line.

        Raises:
            DataError: samples without an answer, or names of classes that do not match.
        """
        found = _of_all_processes(self._answers)
        self.reset()
        old = self._old
        missing = [name for name in old.ids.tolist() if self._place[name] not in found]
        if missing:
            raise DataError(
                f"new: {len(missing)} of {len(old)} samples have no prediction ({first(missing)}); validate "
                "on all of them, and in several processes give ids"
            )
        answers = np.array([found[self._place[name]] for name in old.ids.tolist()], dtype=np.str_)
        new = build_predictions("new", old.ids, old.labels, answers, None, self._classes)
        report = compare(old, new, ComparisonRequest(old_classes=self._old_classes, worst=0))
        self.history.append(report)
        if self._say is not None and rank() == 0:
            self._say(self.line())
        return report

    def line(self) -> str:
        """The last validation in one line: NFR and error, each with its count."""
        nfr, error = self._last().rates.nfr, self._last().new.errors.all_classes
        return (
            f"NFR {percent(nfr.value)} ({format_count(nfr)}, 95 % interval {format_interval(nfr.ci95)}), "
            f"error {percent(error.value)} ({format_count(error)})"
        )

    def metrics(self) -> dict[str, float]:
        """The last validation as fractions for a log, without n/a. DataError before the first one."""
        return flip_metrics(self._last())

    def compute_metrics(self, prediction: Any) -> dict[str, float]:
        """For `compute_metrics` of a trainer of Hugging Face: one validation, whose order is the stored one.

        Args:
            prediction: its `predictions` are logits (N, C), or a tuple that begins with them; its `label_ids`
                are columns of the logits, or -100.

        Raises:
            DataError: labels that are no column, or not the stored ones, so that the order is another one.
        """
        logits = prediction.predictions
        logits = as_array(logits[0] if isinstance(logits, tuple) else logits, "new")
        if prediction.label_ids is not None:
            self._check_labels(as_array(prediction.label_ids, "label_ids"))
        self(logits)
        return self.metrics()

    def _last(self) -> FlipReport:
        if not self.history:
            raise DataError("there was no validation yet; call finish after one")
        return self.history[-1]

    def _as_text(self, new: NamedArray) -> NDArray[np.str_]:
        if new.values.ndim == 1:
            return as_text(new.values, "pred", "new")
        refuse_one_column(new.values, "new")
        lists = [] if self._classes is None else [self._classes]
        logits, classes = order_columns(new, lists, "new")
        classes = self._classes if classes is None else classes
        column = first_maximum(logits, "new")
        if classes is None:
            if self._largest >= logits.shape[1]:
                raise DataError(
                    f"labels: {self._largest} is no column of the logits, 0..{logits.shape[1] - 1}; count "
                    "labels from 0, mark samples to be ignored by -100, or give classes"
                )
            return column.astype(np.str_)
        if len(classes) != logits.shape[1]:
            raise DataError(
                f"new: logits of {logits.shape[1]} columns for {len(classes)} `classes`; name each column "
                "once"
            )
        return np.array(classes, dtype=np.str_)[column]

    def _label(self, column: int) -> str:
        """The label that a number of a trainer's stands for."""
        if column == -100:
            return IGNORED
        return str(column) if self._classes is None else self._classes[column]

    def _check_labels(self, label_ids: NDArray[Any]) -> None:
        """DataError where a trainer's labels are not the stored ones."""
        columns = _sound_numbers(label_ids, "label_ids")
        names = self._classes
        if names is not None and (beyond := columns[columns >= len(names)].tolist()):
            raise DataError(
                f"label_ids: {len(beyond)} of {len(columns)} are no column of the logits, "
                f"0..{len(names) - 1} ({first(map(str, beyond))}); give `classes`, the label of each column"
            )
        told = [self._label(column) for column in columns.tolist()]
        counted = dict(zip(self._old.ids.tolist(), self._old.labels.tolist(), strict=True))
        stored = [counted.get(name, IGNORED) for name in self._place]
        wrong = sum(a != b for a, b in zip(told, stored, strict=False)) + abs(len(told) - len(stored))
        if wrong:
            raise DataError(
                f"label_ids: {wrong} of {len(stored)} are not the stored labels of these samples; validate "
                "on the same samples in the same order"
            )


def _check_sound(labels: Any) -> None:
    """DataError where labels are neither text nor numbers that `_sound_numbers` takes."""
    values = as_array(labels, "labels", (1, 2))
    if not all(isinstance(value, str | bytes) for value in values[:1].tolist()):
        _sound_numbers(values, "labels")


def _sound_numbers(values: NDArray[Any], name: str) -> NDArray[np.int64]:
    """Integers from 0 on, or -100.

    Raises:
        DataError: others; a negative one would be taken for a place from the end, and a float be cut.
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


def _of_all_processes(answers: dict[int, str]) -> dict[int, str]:
    """The answers of every process of torch.distributed, where it runs."""
    torch = sys.modules.get("torch")  # nothing runs where nobody has imported it
    if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return answers
    shares: list[Any] = [None] * torch.distributed.get_world_size()
    torch.distributed.all_gather_object(shares, answers)
    return {place: answer for share in shares for place, answer in share.items()}
