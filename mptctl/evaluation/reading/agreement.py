"""Checks of the parts of one model's predictions against each other: labels, answers, logits, classes."""

from __future__ import annotations

import re
from collections import Counter

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mptctl.errors import DataError
from mptctl.evaluation.reading.columns import first
from mptctl.evaluation.reading.table import Table


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


def check_classes(name: str, classes: tuple[str, ...] | None) -> None:
    """Raise DataError where a list of classes is empty or names a class twice; None is allowed."""
    if classes is not None and not classes:
        raise DataError(f"{name}: `classes` names no class; write the labels that the model can predict")
    if classes is not None and len(set(classes)) != len(classes):
        raise DataError(f"{name}: `classes` names a class twice; give each column of the logits its own name")


def error_of_repeated_ids(name: str, count: int, listed: str) -> DataError:
    """Make the error of a file with ids that stand in several rows: how many ids, and some of them."""
    return DataError(f"{name}: {count} ids stand there more than once ({listed}); keep one row each")


def refuse_repeated_ids(ids: pa.Array, part: str) -> None:
    """Raise DataError where ids are repeated: very many rows of one id would take all memory."""
    counts = Counter(ids.to_pylist())
    repeated = [str(name) for name, count in counts.items() if count > 1]
    if repeated:
        raise error_of_repeated_ids(part, len(repeated), first(repeated))


def check_answers_known(name: str, table: Table, classes: tuple[str, ...] | None) -> None:
    """Raise DataError where a model names its classes and predicts another one."""
    unknown = [] if classes is None else sorted(set(table.answers) - set(classes))
    if unknown:
        raise DataError(f"{name}: predictions that are not among its `classes`: {first(unknown)}")


def check_numbered_labels(labels: Counter[str], columns: int, name: str) -> None:
    """Raise DataError where labels beside logits without `classes` are not 0, 1, 2, ..., in that spelling.

    Numbers beyond the columns are allowed here. They may be classes that came after this model, which
    `check_counted` looks up in the other models.
    """
    beyond = labels_beyond(labels, columns)
    if not all(re.fullmatch("-?[0-9]+", label) for label in beyond):
        raise DataError(f"{name}: `logits` with text labels need `classes`, the label of each column")
    wrong = [label for label in beyond if not re.fullmatch("[1-9][0-9]*", label)]
    if wrong:
        raise error_of_labels(wrong, labels, columns, name)


def check_start(table: Table, name: str) -> None:
    """Raise DataError where labels seem to count from 1 and the columns of logits from 0.

    That is so where no label is 0, and more answers are right if their column is counted from 1.
    """
    if "0" in table.labels:
        return
    labels, answers = table.column("label"), table.column("pred")
    right = int((answers == labels).sum())
    right_from_1 = int(((answers.astype(np.int64) + 1).astype(np.str_) == labels).sum())
    if right_from_1 > right:
        raise DataError(
            f"{name}: the labels seem to count from 1 and the columns of `logits` from 0 ({right_from_1} "
            f"of {len(labels)} predictions are right one class further, {right} as they stand); count "
            "labels from 0, or write `classes`, the label of each column"
        )


def check_pred_column(name: str, preds: NDArray[np.str_], answers: NDArray[np.str_]) -> None:
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
