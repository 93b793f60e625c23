"""The table of one model: ids, true classes and predictions, in memory or in the workspace's database."""

from __future__ import annotations

import weakref
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mptctl.evaluation.reading.columns import Vocabulary, number_array
from mptctl.evaluation.reading.workspace import current

# Rows that are written into the database at once: a statement costs as much as some 100,000 rows.
AT_ONCE = 2**19


class Stored:
    """A table of the current workspace, which is dropped when this object is freed.

    Attributes:
        name: of the table; it is made by `Workspace.append`.
    """

    def __init__(self) -> None:
        work = current()
        self.name = work.name()
        weakref.finalize(self, work.drop_later, f"DROP TABLE IF EXISTS {self.name}")


@dataclass(frozen=True, eq=False)
class Table:
    """N samples with true classes and predictions, which are numbers of names.

    Attributes:
        content: `id`, `pred` and, if it was read, `label`, in memory or in the workspace in which it was
            read; ids are int64 or text.
        label_names, pred_names: the name of each number; several numbers may have one name.
        label_counts, pred_counts: how many samples have each number.
    """

    content: pa.Table | Stored
    label_names: tuple[str, ...]
    pred_names: tuple[str, ...]
    label_counts: NDArray[np.int64]
    pred_counts: NDArray[np.int64]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return int(self.pred_counts.sum())

    @cached_property
    def labels(self) -> Counter[str]:
        """Numbers of samples by class, sorted by name."""
        return _count_names(self.label_names, self.label_counts)

    @cached_property
    def answers(self) -> Counter[str]:
        """Numbers of samples by answer, sorted by name."""
        return _count_names(self.pred_names, self.pred_counts)

    def in_memory(self) -> Table:
        """The same table, which needs no workspace any more."""
        return replace(self, content=self.arrow())

    def arrow(self) -> pa.Table:
        """The content, read into memory if it is not there."""
        if isinstance(self.content, Stored):
            return current().table(f"FROM {self.content.name}")
        return self.content

    def without_labels(self) -> Table:
        """The same table, with empty text as every label."""
        return replace(self, label_names=("",) * len(self.label_names))

    def with_predictions(self, preds: NDArray[np.integer[Any]], names: tuple[str, ...]) -> Table:
        """The same table, in memory, with other predictions: (N,) numbers of some names."""
        table = self.arrow()
        place = table.column_names.index("pred")
        changed = table.set_column(place, "pred", number_array(preds.astype(np.int32)))
        counts = np.bincount(preds, minlength=len(names))
        return replace(self, content=changed, pred_names=names, pred_counts=counts)

    def relation(self) -> str:
        """SQL of the table in the current workspace: `row`, from 0, and the columns of `content`.

        A table in memory is registered there until it is freed.
        """
        if isinstance(self.content, Stored):
            return f"(SELECT rowid AS row, * FROM {self.content.name})"
        work, rows = current(), number_array(np.arange(len(self.content)))
        name = work.register_table(self.content.append_column("row", rows))
        weakref.finalize(self, work.drop_later, f"DROP VIEW IF EXISTS {name}")
        return name

    def has_integer_ids(self) -> bool:
        """Tell whether ids are integers."""
        content = self.content
        if isinstance(content, Stored):
            return bool(current().fetch(f"SELECT typeof(id) = 'BIGINT' FROM {content.name} LIMIT 1")[0][0])
        return bool(pa.types.is_integer(content.schema.field("id").type))

    def column(self, name: Literal["id", "label", "pred"]) -> NDArray[np.str_]:
        """(N,) a column as text, in the order of the rows."""
        values = self.arrow().column(name)
        if name == "id":
            return np.array(values.to_pylist(), dtype=np.str_)
        names = np.array(self.label_names if name == "label" else self.pred_names, dtype=np.str_)
        return np.asarray(names[values.to_numpy()])


def _count_names(names: Sequence[str], counts: NDArray[np.int64]) -> Counter[str]:
    """Counts by name, sorted; those of equal names are added, and names without samples left out."""
    found: Counter[str] = Counter()
    for name, count in sorted(zip(names, counts.tolist(), strict=True)):
        if count:
            found[name] += count
    return found


class TableBuilder:
    """Puts a table together, batch by batch.

    Args:
        vocabulary: of the labels and predictions.
        in_memory: keep the table in memory; False: in the database of the current workspace.
    """

    def __init__(self, vocabulary: Vocabulary, *, in_memory: bool) -> None:
        self.vocabulary = vocabulary
        self._batches: list[pa.Table] = []
        self._stored = None if in_memory else Stored()
        self._label_counts = self._pred_counts = np.zeros(0, dtype=np.int64)

    def add(self, ids: pa.Array, preds: NDArray[np.int32], labels: NDArray[np.int32] | None) -> None:
        """Add n rows; predictions and labels are numbers of the vocabulary, or no batch has labels."""
        self._pred_counts = add_counts(self._pred_counts, preds)
        columns = {"id": ids, "pred": number_array(preds)}
        if labels is not None:
            self._label_counts = add_counts(self._label_counts, labels)
            columns["label"] = number_array(labels)
        batch = pa.Table.from_arrays([*columns.values()], names=[*columns])
        if self._batches and batch.schema != self._batches[0].schema:
            self._store()
        self._batches.append(batch)
        if sum(map(len, self._batches)) >= AT_ONCE:
            self._store()

    def _store(self) -> None:
        """Write the batches in memory into the database, if the table lies there."""
        if self._stored is not None and self._batches:
            current().append(self._stored.name, pa.concat_tables(self._batches))
            self._batches = []

    def table(self) -> Table:
        """The table of all rows, at least one batch."""
        self._store()
        names = tuple(self.vocabulary.names)
        # A name may come after the last row that was counted in one of the two columns.
        label_counts, pred_counts = (
            np.pad(counts, (0, len(names) - len(counts)))
            for counts in (self._label_counts, self._pred_counts)
        )
        content = pa.concat_tables(self._batches) if self._stored is None else self._stored
        return Table(content, names, names, label_counts, pred_counts)


def add_counts(counts: NDArray[np.int64], codes: NDArray[np.signedinteger[Any]]) -> NDArray[np.int64]:
    """Add how often each number occurs in `codes` to the counts so far."""
    added = np.bincount(codes, minlength=len(counts))
    added[: len(counts)] += counts
    return added
