"""Answers of one model on one test set, and the files that carry them between frameworks."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError, NonFiniteError
from mptctl.evaluation.reading.columns import as_text, class_names, first
from mptctl.evaluation.reading.readers import find_parts, form_of
from mptctl.evaluation.reading.row_reading import read_rows
from mptctl.evaluation.reading.table import ArrayTable, Table, kind_of_ids
from mptctl.files import OpenOutput, writing

# Elements of logits that are looked at in one go: 8 MB in double precision, small beside any test set.
BLOCK = 2**20


class Scored(NamedTuple):
    """(N, C) logits, and the C classes in the order of their columns."""

    logits: NDArray[Any]
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Predictions:
    """The predictions of one model.

    Attributes:
        name: the file or run that it came from.
        table: N rows: sample, true class, answer.
        logits: (N, C) in any float type, possibly mapped from a file; None where only answers are known.
        classes: the labels that the model can predict, in the order of its logits; None where not known.
        origin: ``checkpoint`` for a model of ours, ``file`` for a predictions file.
        counted: `classes` are the numbers of the logits' columns from 0, because nobody gave any.
    """

    name: str
    table: Table
    logits: NDArray[Any] | None = None
    classes: tuple[str, ...] | None = None
    origin: Literal["file", "checkpoint"] = "file"
    counted: bool = False

    def __len__(self) -> int:
        return self.table.rows

    @property
    def scored(self) -> Scored:
        """Logits and classes; DataError where there are only answers."""
        if self.logits is None or self.classes is None:
            raise DataError(
                f"{self.name}: has predictions without `logits`, from which no confidence follows; write "
                "`logits`, (N, C)"
            )
        return Scored(self.logits, self.classes)

    @cached_property
    def ids(self) -> NDArray[np.str_]:
        """(N,) one per sample, read from the files where they are not in memory."""
        return self.table.column("id")

    @cached_property
    def labels(self) -> NDArray[np.str_]:
        """(N,) the true classes; as `ids`."""
        return self.table.column("label")

    @cached_property
    def preds(self) -> NDArray[np.str_]:
        """(N,) the answers; as `ids`."""
        return self.table.column("pred")


def build_predictions(
    name: str,
    ids: NDArray[Any],
    labels: NDArray[Any],
    preds: NDArray[Any] | None = None,
    logits: NDArray[Any] | None = None,
    classes: tuple[str, ...] | None = None,
    origin: Literal["file", "checkpoint"] = "file",
) -> Predictions:
    """Check the parts of `Predictions` against each other and put them together.

    Args:
        name: the file or run, for messages.
        ids, labels, preds: (N,) integers or text; integers become their decimal text (`as_text`).
        logits: (N, C); with them `preds` follows, the first maximum of each row being the answer.
        classes: the C class labels in the order of the logits; without them, integers from 0,
            and then the labels must be such numbers; those from C on are classes that the model does not
            know.
        origin: where the model is from.

    Raises:
        DataError: parts that are missing, of unequal length, or contradict each other.
        NonFiniteError: rows of logits with NaN or plus infinity (minus infinity: never answered).
    """
    kind = kind_of_ids(np.asarray(ids))
    ids, labels = as_text(ids, "id", name), as_text(labels, "label", name)
    if not len(ids):
        raise DataError(f"{name}: holds no sample; write one row per test sample")
    _check_classes(name, classes)
    if logits is None:
        if preds is None:
            raise DataError(f"{name}: holds neither `pred` nor `logits`; write one of them")
        answers = as_text(preds, "pred", name)
        _same_length(name, ids, label=labels, pred=answers)
        table = ArrayTable(ids, labels, answers, kind)
        _check_among(name, table, classes)
        return Predictions(name, table, None, classes, origin)

    if logits.ndim != 2 or logits.dtype.kind != "f" or not logits.shape[1]:
        raise DataError(f"{name}: `logits` is {logits.dtype} {logits.shape}; write floats of shape (N, C)")
    if origin == "file":
        refuse_one_column(logits, name)
    _same_length(name, ids, label=labels, logits=logits)
    counted = classes is None
    if classes is None:
        _check_numbers(labels, logits.shape[1], name)
        classes = tuple(str(i) for i in range(logits.shape[1]))
    if len(classes) != logits.shape[1]:
        raise DataError(f"{name}: {len(classes)} `classes` for {logits.shape[1]} columns of `logits`")
    column = first_maximum(logits, name)
    answers = np.array(classes, dtype=np.str_)[column]
    if counted:
        _check_start(labels, answers, column, name)
    if preds is not None:
        _same_length(name, ids, pred=preds)
        _check_answers(name, as_text(preds, "pred", name), answers, logits, classes)
    return Predictions(name, ArrayTable(ids, labels, answers, kind), logits, classes, origin, counted)


def row_blocks(logits: NDArray[Any]) -> list[slice]:
    """Slices of rows that together cover (N, C) `logits`, each about `BLOCK` elements."""
    rows = max(1, BLOCK // max(1, logits.shape[1]))
    return [slice(start, start + rows) for start in range(0, len(logits), rows)]


def refuse_one_column(logits: NDArray[Any], name: str) -> None:
    """DataError where (N, C) logits are one column, as a sigmoid gives: it is always the largest."""
    if logits.shape[1] == 1:
        raise DataError(
            f"{name}: `logits` is one column, of which no class is the largest; write (N, 2), such as zeros "
            "before what goes into the sigmoid, or the predictions as `pred`, (N,)"
        )


def first_maximum(logits: NDArray[Any], name: str) -> NDArray[np.int64]:
    """(N,) column of the first maximum of each row of (N, C) `logits`; NonFiniteError where there is none."""
    column = np.empty(len(logits), dtype=np.int64)
    bad = 0
    for rows in row_blocks(logits):
        block = np.asarray(logits[rows])
        column[rows] = block.argmax(axis=1)
        # The maximum is NaN with any NaN, +inf with any +inf, and -inf where nothing can be answered.
        bad += int((~np.isfinite(np.take_along_axis(block, column[rows, None], axis=1))).sum())
    if bad:
        raise NonFiniteError(
            f"{name}: {bad} of {len(logits)} rows of logits are not finite; no rate follows from them"
        )
    return column


def read_predictions(path: Path) -> Predictions:
    """Read predictions of any framework: a file, the files that a pattern matches, or the parts in a folder.

    A file has arrays (``.npz``) or columns (``.csv``, ``.parquet``) `id`, `label`, and `pred` or `logits`,
    and may have `classes`. In a table a cell of `logits` or `classes` is a list; in CSV, as JSON.
    Tables without logits stay where they are; logits in an uncompressed ``.npz`` are mapped.

    Raises:
        UsageError: another ending. DataError: missing, damaged or contradictory content.
        NonFiniteError: logits that are not finite. StorageError: content that is larger than the memory.
    """
    name, parts = str(path), find_parts(path)
    scanned = form_of(parts[0]).scan(name, parts)
    if scanned is None:
        columns = read_rows(parts)
        classes = columns.get("classes")
        return build_predictions(
            name,
            columns["id"],
            columns["label"],
            columns.get("pred"),
            columns.get("logits"),
            None if classes is None else class_names(classes, name),
        )
    names = None if scanned.classes is None else class_names(scanned.classes, name)
    _check_classes(name, names)
    _check_among(name, scanned.table, names)
    return Predictions(name, scanned.table, None, names)


def save_predictions(predictions: Predictions, path: Path, open_output: OpenOutput = writing) -> None:
    """Write an uncompressed ``.npz`` that `read_predictions` reads back; StorageError where it cannot be."""
    arrays: dict[str, NDArray[Any]] = {
        # Text here and numbers in the other model's file would not match.
        "id": predictions.ids.astype(np.int64)
        if predictions.table.id_kind == "integers"
        else predictions.ids,
        "label": predictions.labels,
        "pred": predictions.preds,
    }
    if predictions.classes is not None:
        arrays["classes"] = np.array(predictions.classes, dtype=np.str_)
    if predictions.logits is not None:
        arrays["logits"] = predictions.logits
    with open_output(path) as stream:
        np.savez(stream, allow_pickle=False, **arrays)


def labels_beyond(labels: Counter[str], columns: int) -> list[str]:
    """Labels that are no number from 0 to `columns` - 1, shorter numbers first."""
    known = {str(i) for i in range(columns)}
    return sorted((label for label in labels if label not in known), key=lambda x: (len(x), x))


def refused_labels(strange: list[str], labels: Counter[str], columns: int, name: str) -> DataError:
    """The error of logits without `classes` whose labels do not count their columns."""
    return DataError(
        f"{name}: {sum(labels[label] for label in strange)} of {labels.total()} labels are no column of its "
        f"logits, 0..{columns - 1} ({first(strange)}); count labels from 0, or write `classes`, the label of "
        "each column"
    )


def _check_classes(name: str, classes: tuple[str, ...] | None) -> None:
    if classes is not None and not classes:
        raise DataError(f"{name}: `classes` names no class; write the labels that the model can predict")
    if classes is not None and len(set(classes)) != len(classes):
        raise DataError(f"{name}: `classes` names a class twice; give each column of the logits its own name")


def _check_among(name: str, table: Table, classes: tuple[str, ...] | None) -> None:
    if classes is not None and (outside := sorted(set(table.answers) - set(classes))):
        raise DataError(f"{name}: predictions that are not among its `classes`: {first(outside)}")


def _check_numbers(labels: NDArray[np.str_], columns: int, name: str) -> None:
    """Labels beside logits without `classes`: 0, 1, 2, ..., in that spelling."""
    counts = Counter(labels.tolist())
    strange = labels_beyond(counts, columns)
    if not all(re.fullmatch("-?[0-9]+", label) for label in strange):
        raise DataError(f"{name}: `logits` with text labels need `classes`, the label of each column")
    # Numbers from C on may be classes that came after this model: `check_counted` asks the other models.
    if wrong := [label for label in strange if not re.fullmatch("[1-9][0-9]*", label)]:
        raise refused_labels(wrong, counts, columns, name)


def _check_start(
    labels: NDArray[np.str_], answers: NDArray[np.str_], column: NDArray[np.int64], name: str
) -> None:
    """Labels without a 0 count from 1 where the answers are right more often one class further."""
    if not (labels == "0").any():
        right, shifted = int((answers == labels).sum()), int(((column + 1).astype(np.str_) == labels).sum())
        if shifted > right:
            raise DataError(
                f"{name}: the labels seem to count from 1 and the columns of `logits` from 0 ({shifted} of "
                f"{len(labels)} predictions are right one class further, {right} as they stand); count "
                "labels from 0, or write `classes`, the label of each column"
            )


def _same_length(name: str, ids: NDArray[np.str_], **parts: NDArray[Any]) -> None:
    for what, part in parts.items():
        if len(part) != len(ids):
            raise DataError(
                f"{name}: {len(part)} rows of `{what}` for {len(ids)} of `id`; write them of equal length"
            )


def _check_answers(
    name: str,
    preds: NDArray[np.str_],
    answers: NDArray[np.str_],
    logits: NDArray[Any],
    classes: tuple[str, ...],
) -> None:
    """`pred` beside `logits` may differ from the first maximum only where another class ties with it."""
    column = {label: i for i, label in enumerate(classes)}
    wrong = [
        i
        for i in np.flatnonzero(preds != answers)
        if preds[i] not in column or logits[i, column[preds[i]]] < logits[i, column[answers[i]]]
    ]
    if wrong:
        raise DataError(
            f"{name}: `pred` is not the largest of `logits` in {len(wrong)} rows; write only one of them"
        )
