"""The predictions of one model on one test set, and the files that carry them between frameworks."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mptctl.errors import DataError, StorageError
from mptctl.evaluation.reading.agreement import (
    check_answers_known,
    check_classes,
    check_numbered_labels,
    check_pred_column,
    check_start,
    refuse_repeated_ids,
)
from mptctl.evaluation.reading.arrow_batches import read_batches
from mptctl.evaluation.reading.columns import (
    Vocabulary,
    as_labels,
    class_names,
    encode,
    explaining,
    known_columns,
    to_arrow,
)
from mptctl.evaluation.reading.logits import first_maximum, refuse_one_column
from mptctl.evaluation.reading.readers import find_parts, form_of
from mptctl.evaluation.reading.table import Table, TableBuilder
from mptctl.evaluation.reading.workspace import free_memory, shown_size
from mptctl.files import OpenOutput

# Beyond so many rows, some ids of each batch are looked at for repeated ones; others are found by the join.
MANY, LOOKED_AT = 2**20, 2**11


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
        """The logits and the classes of their columns; DataError where there are no logits."""
        if self.logits is None or self.classes is None:
            raise DataError(
                f"{self.name}: has predictions without `logits`, from which no confidence follows; write "
                "`logits`, (N, C)"
            )
        return Scored(self.logits, self.classes)

    def without_labels(self) -> Predictions:
        """The same predictions, each with empty text as its label, on which any two agree."""
        return replace(self, table=self.table.without_labels())

    def in_memory(self) -> Predictions:
        """The same predictions, whose table needs neither its files nor a workspace any more."""
        return replace(self, table=self.table.in_memory())

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
    labels: NDArray[Any] | None,
    preds: NDArray[Any] | None = None,
    logits: NDArray[Any] | None = None,
    classes: tuple[str, ...] | None = None,
    origin: Literal["file", "checkpoint"] = "file",
) -> Predictions:
    """Check the parts of predictions against each other, and put them together.

    Args:
        name: the file or run, for messages.
        ids: (N,) integers or text.
        labels: (N,) the true classes, as `ids`; None: there are none, and every label is the empty text.
        preds: (N,) the answers, as `ids`. May be None with logits: the answer is the first maximum of a row.
        logits: (N, C) floats; None where only the answers are known.
        classes: the C class labels in the order of the logits. Without them the classes are the numbers of
            the columns from 0, and then labels must be numbers, too; numbers from C on are classes that the
            model does not know.
        origin: ``checkpoint`` for a model of ours, ``file`` for a predictions file.

    Raises:
        DataError: parts are missing, of unequal length, or contradict each other.
        NonFiniteError: a row of logits has NaN or plus infinity, or only minus infinity.
    """
    given = {"id": ids, "label": labels, "pred": preds}
    batch: dict[str, Any] = {
        key: to_arrow(values, key, name) for key, values in given.items() if values is not None
    }
    if logits is not None:
        batch["logits"] = logits
    if preds is None and logits is None:
        raise DataError(f"{name}: holds neither `pred` nor `logits`; write one of them")
    reading = _Reading(name, in_memory=True, labelled=labels is not None, classes=classes)
    reading.add(batch, name)
    return reading.finish(origin)


class _Reading:
    """Puts predictions together from batches, and checks them.

    Args:
        name: of the predictions.
        in_memory: keep the table in memory, as is done where there are logits.
        labelled: the batches have labels; False: every label becomes the empty text.
        classes: the list of classes, where the batches have none.
    """

    def __init__(
        self, name: str, *, in_memory: bool, labelled: bool, classes: tuple[str, ...] | None = None
    ) -> None:
        self.name = name
        self._labelled = labelled
        self._classes = classes
        self._logits: list[NDArray[Any]] = []
        self._vocabulary = Vocabulary(name)
        self._table = TableBuilder(self._vocabulary, in_memory=in_memory)
        self._rows = 0
        self._preds: list[NDArray[np.int32]] = []  # beside logits
        self._kinds: dict[str, tuple[bool, str]] = {}  # by column, whether it holds numbers, and where first

    def add(self, batch: dict[str, Any], part: str, start: int = 0) -> None:
        """Add the rows of a batch, of the columns of predictions.

        Args:
            batch: as the readers of the forms yield it.
            part: the file, for messages.
            start: rows before these in this file.

        Raises:
            DataError: a value is no label, columns are of unequal length, or differ in type, width or classes
                from those before.
            StorageError: logits do not fit into memory.
        """
        n = len(batch["id"])
        for key in batch.keys() & {"label", "pred", "logits"}:
            if len(batch[key]) != n:
                raise DataError(
                    f"{part}: {len(batch[key])} rows of `{key}` for {n} of `id`; write them of equal length"
                )
        if not n:
            return
        for key in batch.keys() & {"id", "label", "pred"}:
            self._check_kind(key, batch[key], part)
        if "classes" in batch:
            self._check_classes(class_names(batch["classes"], part), part)
        ids = as_labels(batch["id"], "id", part, start)
        if self._rows >= MANY:
            refuse_repeated_ids(ids.slice(0, LOOKED_AT), part)
        codes = {
            key: encode(batch[key], key, part, start, self._vocabulary)
            for key in ("label", "pred")
            if key in batch
        }
        if "logits" in batch:
            self._add_logits(batch["logits"], part)
            if "pred" in codes:
                self._preds.append(codes["pred"])
        if not codes:  # logits without labels
            self._vocabulary.codes([""], "label")
            codes["label"] = np.zeros(n, dtype=np.int32)
        # Without `pred`, labels fill its column until `finish` puts the answers of the logits there.
        preds = codes["pred"] if "pred" in codes else codes["label"]
        self._table.add(ids, preds, codes.get("label", preds) if self._labelled else None)
        self._rows += n

    def add_all(self, batches: Iterable[dict[str, Any]], part: str) -> None:
        """Add the rows of all batches of one file; arguments and errors as `add`."""
        start = 0
        for batch in batches:
            self.add(batch, part, start)
            start += len(batch["id"])

    def _check_kind(self, key: str, values: pa.Array, part: str) -> None:
        """Raise DataError where a column holds numbers in one part and text in another."""
        kind = values.type.value_type if pa.types.is_dictionary(values.type) else values.type
        is_number = pa.types.is_integer(kind) or pa.types.is_floating(kind)
        was_number, before = self._kinds.setdefault(key, (is_number, part))
        if is_number != was_number:
            raise DataError(
                f"{part}: `{key}` is of another type in another part ({before}); write one type into all "
                "parts"
            )

    def _check_classes(self, names: tuple[str, ...], part: str) -> None:
        """Keep the first list of classes; DataError where a later one differs."""
        if self._rows and names != self._classes:
            raise DataError(
                f"{part}: `classes` differs from that before; write the same list into all rows and parts"
            )
        self._classes = names

    def _add_logits(self, logits: NDArray[Any], part: str) -> None:
        """Keep the logits of n rows.

        Raises:
            DataError: they are no (n, C) floats, one column, or have another width than those before.
            StorageError: they do not fit into memory, together with those before.
        """
        if logits.ndim != 2 or logits.dtype.kind != "f" or not logits.shape[1]:
            raise DataError(
                f"{part}: `logits` is {logits.dtype} {logits.shape}; write floats of shape (N, C)"
            )
        if self._logits and self._logits[0].shape[1] != logits.shape[1]:
            raise DataError(f"{part}: rows of `logits` are of different lengths; write (N, C)")
        needed = sum(each.nbytes for each in self._logits) + logits.nbytes
        free = free_memory()
        if self._logits and needed > free:  # `finish` copies logits of several batches into one array
            raise StorageError(
                f"{part}: holds logits of {shown_size(needed)} and more where {shown_size(free)} of memory "
                "are free; write logits into an uncompressed .npz (numpy.savez), or only `pred`"
            )
        self._logits.append(logits)

    def finish(self, origin: Literal["file", "checkpoint"] = "file") -> Predictions:
        """Make the predictions of all batches.

        Raises:
            DataError: there are no rows, or labels, predictions, logits and classes contradict each other.
            NonFiniteError: a row of logits has NaN or plus infinity, or only minus infinity.
        """
        name, classes = self.name, self._classes
        if not self._rows:
            raise DataError(f"{name}: holds no sample; write one row per test sample")
        check_classes(name, classes)
        table = self._table.table() if self._labelled else self._table.table().without_labels()
        if not self._logits:
            check_answers_known(name, table, classes)
            return Predictions(name, table, None, classes, origin)
        logits = self._logits[0] if len(self._logits) == 1 else np.concatenate(self._logits)
        if origin == "file":
            refuse_one_column(logits, name)
        counted = classes is None
        if classes is None:
            if self._labelled:
                check_numbered_labels(table.labels, logits.shape[1], name)
            classes = tuple(str(i) for i in range(logits.shape[1]))
        if len(classes) != logits.shape[1]:
            raise DataError(f"{name}: {len(classes)} `classes` for {logits.shape[1]} columns of `logits`")
        table = table.with_predictions(first_maximum(logits, name), classes)
        if counted and self._labelled:
            check_start(table, name)
        if self._preds:
            names = np.array(self._vocabulary.names)
            check_pred_column(name, names[np.concatenate(self._preds)], table.column("pred"))
        return Predictions(name, table, logits, classes, origin, counted)


def read_predictions(path: Path, *, labelled: bool = True) -> Predictions:
    """Read predictions of any framework: a file, the files that a pattern matches, or the parts in a folder.

    A file has arrays (``.npz``) or columns (``.csv``, ``.parquet``) `id`, `label`, and `pred` or `logits`,
    and may have `classes`. In a table, a cell of `logits` or `classes` is a list; in CSV, a list as JSON.
    Without logits they are read into the database of the workspace; logits in an uncompressed ``.npz`` are
    mapped.

    Args:
        path: of the file or folder, or the pattern.
        labelled: False: no `label` is needed or read, and every label is the empty text.

    Raises:
        UsageError: the file has another ending.
        DataError: content is missing, damaged or contradictory.
        NonFiniteError: logits are not finite.
        StorageError: content does not fit into memory.
    """
    parts = find_parts(path)
    with explaining(parts[0]):
        columns = known_columns(parts[0], form_of(parts[0]).headers(parts[0]), labelled=labelled)
    reading = _Reading(str(path), in_memory="logits" in columns, labelled=labelled)
    for part in parts:
        with explaining(part):
            own = known_columns(part, form_of(part).headers(part), labelled=labelled)
            if own != columns:
                raise DataError(
                    f"{part}: columns {', '.join(own)}, and in {parts[0]}: {', '.join(columns)}; write the "
                    "same columns into all parts"
                )
            with closing(form_of(part).batches(part, columns)) as batches:
                reading.add_all(batches, str(part))
    return reading.finish()


def read_frame(columns: pa.Table, name: str, *, labelled: bool = True) -> Predictions:
    """Read predictions from a table in memory that has the columns of a predictions file.

    Args:
        columns: `id`, `label`, and `pred` or `logits`; perhaps `classes`.
        name: of the model.
        labelled: False: as for `read_predictions`.

    Raises:
        DataError, NonFiniteError: as `read_predictions`.
    """
    reading = _Reading(name, in_memory=True, labelled=labelled)
    reading.add_all(read_batches(name, columns.schema, columns.to_batches(), columns.column_names), name)
    return reading.finish()


def save_predictions(predictions: Predictions, path: Path, open_output: OpenOutput) -> None:
    """Write predictions as an uncompressed ``.npz`` that `read_predictions` reads back.

    Args:
        predictions: of one model.
        path: of the file; an existing one is replaced.
        open_output: opens the file, such as `writing`.

    Raises:
        StorageError: the file cannot be written.
    """
    ids = predictions.ids
    arrays: dict[str, NDArray[Any]] = {
        "id": ids.astype(np.int64) if predictions.table.has_integer_ids() else ids,
        "label": predictions.labels,
        "pred": predictions.preds,
    }
    if predictions.classes is not None:
        arrays["classes"] = np.array(predictions.classes, dtype=np.str_)
    if predictions.logits is not None:
        arrays["logits"] = predictions.logits
    with open_output(path) as stream:
        np.savez(stream, allow_pickle=False, **arrays)
