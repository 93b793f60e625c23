"""The predictions of one model on one test set, and the files that carry them between frameworks."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError, NonFiniteError
from mptctl.evaluation.reading.columns import as_text, class_names, first
from mptctl.evaluation.reading.readers import find_parts, form_of
from mptctl.evaluation.reading.row_reading import read_rows
from mptctl.evaluation.reading.table import CANONICAL, ArrayTable, IdKind, Table, kind_of_ids
from mptctl.files import OpenOutput, writing

# Elements of logits in a block that is read at once: 8 MB in double precision.
BLOCK = 2**20


class Scored(NamedTuple):
    """(N, C) logits, and the C classes in the order of their columns."""

    logits: NDArray[Any]
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Predictions:
    """The predictions of one model.

    Attributes:
        name: the file or run that they came from.
        table: N rows of sample id, true class and answer.
        logits: (N, C) in any float type, possibly mapped from a file; None where only answers are known.
        classes: the labels that the model can predict, in the order of its logits; None where not known.
        origin: ``checkpoint`` for a model of ours, ``file`` for a predictions file.
        counted: True where nobody named the classes, and `classes` are the columns of the logits, from 0.
        merged: True where a logit is the largest of several classes: their softmax is not the model's.
    """

    name: str
    table: Table
    logits: NDArray[Any] | None = None
    classes: tuple[str, ...] | None = None
    origin: Literal["file", "checkpoint"] = "file"
    counted: bool = False
    merged: bool = False

    def __len__(self) -> int:
        return self.table.rows

    @property
    def scored(self) -> Scored:
        """The logits and the classes of their columns; DataError where there are no logits."""
        if self.logits is None or self.classes is None:
            raise DataError(
                f"{self.name}: has predictions without `logits`, from which no confidence follows; write "
                "`logits`, (N, C)"
            )
        return Scored(self.logits, self.classes)

    def in_memory(self) -> Predictions:
        """The same predictions, whose table needs neither its files nor a workspace any more."""
        if isinstance(self.table, ArrayTable):
            return self
        return replace(self, table=ArrayTable(self.ids, self.labels, self.preds, self.table.id_kind))

    @cached_property
    def ids(self) -> NDArray[np.str_]:
        """(N,) the ids of samples, read from the files and kept if they are not in memory."""
        return self.table.column("id")

    @cached_property
    def labels(self) -> NDArray[np.str_]:
        """(N,) the true classes, read from the files and kept if they are not in memory."""
        return self.table.column("label")

    @cached_property
    def preds(self) -> NDArray[np.str_]:
        """(N,) the answers, read from the files and kept if they are not in memory."""
        return self.table.column("pred")


def build_predictions(
    name: str,
    ids: NDArray[Any],
    labels: NDArray[Any],
    preds: NDArray[Any] | None = None,
    logits: NDArray[Any] | None = None,
    classes: tuple[str, ...] | None = None,
    origin: Literal["file", "checkpoint"] = "file",
    id_kind: IdKind | None = None,
) -> Predictions:
    """Check the parts of predictions against each other, and put them together.

    Args:
        name: the file or run, for messages.
        ids: (N,) integers or text; integers become their decimal text (`as_text`).
        labels: (N,) the true classes, as `ids`.
        preds: (N,) the answers, as `ids`. May be None with logits: the answer is the first maximum of a row.
        logits: (N, C) floats; None where only the answers are known.
        classes: the C class labels in the order of the logits. Without them the classes are the numbers of
            the columns from 0, and then labels must be numbers, too; numbers from C on are classes that the
            model does not know.
        origin: ``checkpoint`` for a model of ours, ``file`` for a predictions file.
        id_kind: what the ids are; None: as their type says.

    Raises:
        DataError: parts are missing, of unequal length, or contradict each other.
        NonFiniteError: a row of logits has NaN or plus infinity, or only minus infinity.
    """
    kind = id_kind or kind_of_ids(np.asarray(ids))
    ids, labels = as_text(ids, "id", name), as_text(labels, "label", name)
    if not len(ids):
        raise DataError(f"{name}: holds no sample; write one row per test sample")
    _check_classes(name, classes)
    if logits is None:
        if preds is None:
            raise DataError(f"{name}: holds neither `pred` nor `logits`; write one of them")
        answers = as_text(preds, "pred", name)
        _check_lengths(name, ids, label=labels, pred=answers)
        table = ArrayTable(ids, labels, answers, kind)
        _check_answers_known(name, table, classes)
        return Predictions(name, table, None, classes, origin)

    if logits.ndim != 2 or logits.dtype.kind != "f" or not logits.shape[1]:
        raise DataError(f"{name}: `logits` is {logits.dtype} {logits.shape}; write floats of shape (N, C)")
    if origin == "file":
        refuse_one_column(logits, name)
    _check_lengths(name, ids, label=labels, logits=logits)
    counted = classes is None
    if classes is None:
        _check_numbered_labels(labels, logits.shape[1], name)
        classes = tuple(str(i) for i in range(logits.shape[1]))
    if len(classes) != logits.shape[1]:
        raise DataError(f"{name}: {len(classes)} `classes` for {logits.shape[1]} columns of `logits`")
    column = first_maximum(logits, name)
    answers = np.array(classes, dtype=np.str_)[column]
    if counted:
        _check_start(labels, answers, column, name)
    if preds is not None:
        _check_lengths(name, ids, pred=preds)
        _check_pred_column(name, as_text(preds, "pred", name), answers)
    return Predictions(name, ArrayTable(ids, labels, answers, kind), logits, classes, origin, counted)


def row_blocks(logits: NDArray[Any]) -> list[slice]:
    """Divide the rows of (N, C) logits into slices of about `BLOCK` elements each."""
    rows = max(1, BLOCK // max(1, logits.shape[1]))
    return [slice(start, start + rows) for start in range(0, len(logits), rows)]


def refuse_one_column(logits: NDArray[Any], name: str) -> None:
    """Raise DataError where (N, C) logits are one column, as of a sigmoid: it would always be the answer."""
    if logits.shape[1] == 1:
        raise DataError(
            f"{name}: `logits` is one column, of which no class is the largest; write (N, 2), such as zeros "
            "before what goes into the sigmoid, or the predictions as `pred`, (N,)"
        )


def first_maximum(logits: NDArray[Any], name: str) -> NDArray[np.int64]:
    """Find the column of the first maximum of each row of (N, C) logits.

    Args:
        logits: (N, C) floats.
        name: of the model, for messages.

    Raises:
        NonFiniteError: the maximum of a row is NaN or infinite.
    """
    column = np.empty(len(logits), dtype=np.int64)
    bad = 0
    for rows in row_blocks(logits):
        block = np.asarray(logits[rows])
        column[rows] = block.argmax(axis=1)
        # The maximum of a row is NaN with any NaN, +inf with any +inf, and -inf if all are -inf.
        bad += int((~np.isfinite(np.take_along_axis(block, column[rows, None], axis=1))).sum())
    if bad:
        raise NonFiniteError(
            f"{name}: {bad} of {len(logits)} rows of logits are not finite; no rate follows from them"
        )
    return column


def read_predictions(path: Path) -> Predictions:
    """Read predictions of any framework: a file, the files that a pattern matches, or the parts in a folder.

    A file has arrays (``.npz``) or columns (``.csv``, ``.parquet``) `id`, `label`, and `pred` or `logits`,
    and may have `classes`. In a table, a cell of `logits` or `classes` is a list; in CSV, a list as JSON.
    Tables without logits are not read into memory; logits in an uncompressed ``.npz`` are mapped.

    Raises:
        UsageError: the file has another ending.
        DataError: content is missing, damaged or contradictory.
        NonFiniteError: logits are not finite.
        StorageError: content does not fit into memory.
    """
    name, parts = str(path), find_parts(path)
    scanned = form_of(parts[0]).scan(name, parts)
    if scanned is None:
        columns = read_rows(parts)
        classes = columns.get("classes")
        is_csv = parts[0].suffix.lower() == ".csv"  # whose cells have no types
        integers = is_csv and all(re.fullmatch(CANONICAL, cell) for cell in columns["id"])
        return build_predictions(
            name,
            columns["id"],
            columns["label"],
            columns.get("pred"),
            columns.get("logits"),
            None if classes is None else class_names(classes, name),
            id_kind="either" if integers else None,
        )
    names = None if scanned.classes is None else class_names(scanned.classes, name)
    _check_classes(name, names)
    _check_answers_known(name, scanned.table, names)
    return Predictions(name, scanned.table, None, names)


def save_predictions(
    predictions: Predictions, path: Path, open_output: OpenOutput = writing, *, beside_integers: bool = False
) -> None:
    """Write predictions as an uncompressed ``.npz`` that `read_predictions` reads back.

    Args:
        predictions: of one model.
        path: of the file; an existing one is replaced.
        open_output: opens the file, such as `writing`.
        beside_integers: the ids of another model of the same samples are integers.

    Raises:
        StorageError: the file cannot be written.
    """
    # Ids that were integers, or matched integers, are written as integers, to match those in the other file.
    are_integers = beside_integers or predictions.table.id_kind == "integers"
    arrays: dict[str, NDArray[Any]] = {
        "id": _as_integers(predictions.ids) if are_integers else predictions.ids,
        "label": predictions.labels,
        "pred": predictions.preds,
    }
    if predictions.classes is not None:
        arrays["classes"] = np.array(predictions.classes, dtype=np.str_)
    if predictions.logits is not None:
        arrays["logits"] = predictions.logits
    with open_output(path) as stream:
        np.savez(stream, allow_pickle=False, **arrays)


def _as_integers(ids: NDArray[np.str_]) -> NDArray[Any]:
    """Convert (N,) text of integers to the type that holds them all: int64, or uint64 beyond it."""
    try:
        return ids.astype(np.int64)
    except OverflowError:
        return ids.astype(np.uint64)


def labels_beyond(labels: Counter[str], columns: int) -> list[str]:
    """Find the labels that are no number from 0 to `columns` - 1, sorted by length and then as text."""
    known = {str(i) for i in range(columns)}
    return sorted((label for label in labels if label not in known), key=lambda label: (len(label), label))


def error_of_labels(wrong: list[str], labels: Counter[str], columns: int, name: str) -> DataError:
    """Make the error of labels that are no columns of logits without `classes`.

    Args:
        wrong: these labels.
        labels: how often each label occurs.
        columns: how many columns the logits have.
        name: of the model.
    """
    return DataError(
        f"{name}: {sum(labels[label] for label in wrong)} of {labels.total()} labels are no column of its "
        f"logits, 0..{columns - 1} ({first(wrong)}); count labels from 0, or write `classes`, the label of "
        "each column"
    )


def _check_classes(name: str, classes: tuple[str, ...] | None) -> None:
    """Raise DataError where a list of classes is empty or names a class twice; None is allowed."""
    if classes is not None and not classes:
        raise DataError(f"{name}: `classes` names no class; write the labels that the model can predict")
    if classes is not None and len(set(classes)) != len(classes):
        raise DataError(f"{name}: `classes` names a class twice; give each column of the logits its own name")


def _check_answers_known(name: str, table: Table, classes: tuple[str, ...] | None) -> None:
    """Raise DataError where a model names its classes and predicts another one."""
    unknown = [] if classes is None else sorted(set(table.answers) - set(classes))
    if unknown:
        raise DataError(f"{name}: predictions that are not among its `classes`: {first(unknown)}")


def _check_numbered_labels(labels: NDArray[np.str_], columns: int, name: str) -> None:
    """Raise DataError where labels beside logits without `classes` are not 0, 1, 2, ..., in that spelling.

    Numbers beyond the columns are allowed here. They may be classes that came after this model, which
    `check_counted` looks up in the other models.
    """
    counts = Counter(labels.tolist())
    beyond = labels_beyond(counts, columns)
    if not all(re.fullmatch("-?[0-9]+", label) for label in beyond):
        raise DataError(f"{name}: `logits` with text labels need `classes`, the label of each column")
    wrong = [label for label in beyond if not re.fullmatch("[1-9][0-9]*", label)]
    if wrong:
        raise error_of_labels(wrong, counts, columns, name)


def _check_start(
    labels: NDArray[np.str_], answers: NDArray[np.str_], column: NDArray[np.int64], name: str
) -> None:
    """Raise DataError where labels seem to count from 1 and the columns of logits from 0.

    That is so where no label is 0, and more answers are right if their column is counted from 1.

    Args:
        labels: (N,) true classes.
        answers: (N,) the answers, as columns from 0 in text.
        column: (N,) the answers, as columns from 0.
        name: of the model, for messages.
    """
    if not (labels == "0").any():
        right = int((answers == labels).sum())
        right_from_1 = int(((column + 1).astype(np.str_) == labels).sum())
        if right_from_1 > right:
            raise DataError(
                f"{name}: the labels seem to count from 1 and the columns of `logits` from 0 ({right_from_1} "
                f"of {len(labels)} predictions are right one class further, {right} as they stand); count "
                "labels from 0, or write `classes`, the label of each column"
            )


def _check_lengths(name: str, ids: NDArray[np.str_], **parts: NDArray[Any]) -> None:
    """Raise DataError where a part, given by the name of its column, has not as many rows as `ids`."""
    for what, part in parts.items():
        if len(part) != len(ids):
            raise DataError(
                f"{name}: {len(part)} rows of `{what}` for {len(ids)} of `id`; write them of equal length"
            )


def _check_pred_column(name: str, preds: NDArray[np.str_], answers: NDArray[np.str_]) -> None:
    """Raise DataError where the column `pred` is not the class with the first of a row's largest logits.

    Args:
        name: of the model, for messages.
        preds: (N,) the column.
        answers: (N,) the class of the first maximum of each row.
    """
    wrong = int((preds != answers).sum())
    if wrong:
        raise DataError(
            f"{name}: `pred` is not the first of the largest `logits` in {wrong} rows; write only one of them"
        )
