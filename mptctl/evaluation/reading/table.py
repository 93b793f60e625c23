"""Tables of one model's ids, true classes and answers, in memory or in files that DuckDB reads."""

from __future__ import annotations

import glob
import weakref
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mptctl.evaluation.reading.workspace import Workspace, current

# Kinds of ids: integers of at most 64 bits; text; or either, which is text that is an integer in every row.
IdKind = Literal["integers", "text", "either"]
# An id of a file without types that may be an integer: no plus, no leading zeros, few enough digits for SQL's
# HUGEINT, in which integers are compared since int64 and uint64 both fit into it.
CANONICAL = "0|-?[1-9][0-9]{0,37}"
# About how many rows are in a table's sample: see `FileTable.sample`.
SAMPLED = 20_000


@dataclass(frozen=True)
class ArrayTable:
    """A table in memory, with the attributes and methods of `FileTable`.

    Attributes:
        ids: (N,) ids of samples, as text.
        truth: (N,) true classes, as text.
        preds: (N,) answers, as text.
        id_kind: what the ids were before they became text.
    """

    ids: NDArray[np.str_]
    truth: NDArray[np.str_]
    preds: NDArray[np.str_]
    id_kind: IdKind

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.ids)

    @cached_property
    def labels(self) -> Counter[str]:
        """How many samples each class has."""
        return Counter(self.truth.tolist())

    @cached_property
    def answers(self) -> Counter[str]:
        """How many samples are answered with each class."""
        return Counter(self.preds.tolist())

    @cached_property
    def sample(self) -> list[str]:
        """The ids of one row in every `sample_step(rows)`, sorted."""
        return sorted(self.ids[:: sample_step(self.rows)].tolist())

    def relation(self, work: Workspace) -> str:
        """Register the table in a workspace, until it is freed; SQL of a relation as `FileTable.source`."""
        columns = {"row": np.arange(self.rows), "text": self.ids, "label": self.truth, "pred": self.preds}
        name = work.register(columns)
        weakref.finalize(self, work.drop_later, f"DROP VIEW IF EXISTS {name}")
        number = "::HUGEINT" if self.id_kind == "integers" else ""
        return f"(SELECT row, text{number} AS id, label, pred FROM {name})"

    def ids_at(self, rows: Sequence[int]) -> list[str]:
        """The ids of some rows, in their order."""
        return [str(self.ids[row]) for row in rows]

    def column(self, name: Literal["id", "label", "pred"]) -> NDArray[np.str_]:
        """(N,) a column as text."""
        return {"id": self.ids, "label": self.truth, "pred": self.preds}[name]


@dataclass(frozen=True, eq=False)
class FileTable:
    """A table that stays in its files, or in a table of DuckDB that was read from them.

    Attributes:
        source: SQL: a relation of `row` from 0, `id` as integer or text, and `label` and `pred` as text.
        rows: the number of rows.
        id_kind: what the ids are.
        labels: how many samples each class has.
        answers: how many samples are answered with each class.
        sample: the ids of one row in every `sample_step(rows)`, sorted.
        files: name of the files, for progress.
    """

    source: str
    rows: int
    id_kind: IdKind
    labels: Counter[str]
    answers: Counter[str]
    sample: list[str]
    files: str

    def relation(self, work: Workspace) -> str:
        """SQL: the `source`; a table in files needs no place in a workspace."""
        return self.source

    def ids_at(self, rows: Sequence[int]) -> list[str]:
        """Read the ids of some rows, in their order."""
        wanted = ", ".join(map(str, rows)) or "NULL"
        query = f"SELECT row, id::VARCHAR FROM {self.source} WHERE row IN ({wanted})"
        ids = dict(current().fetch(query, f"reading {self.files}", self.rows))
        return [ids[row] for row in rows]

    def column(self, name: Literal["id", "label", "pred"]) -> NDArray[np.str_]:
        """Read a column: (N,) text."""
        query = f"SELECT {name}::VARCHAR AS value FROM {self.source} ORDER BY row"
        values: Any = current().arrays(query, f"reading {self.files}", self.rows)["value"]
        return np.asarray(values, dtype=np.str_)


Table = ArrayTable | FileTable


def sample_step(rows: int) -> int:
    """The distance between rows of the sample in a table with `rows` rows."""
    return max(1, rows // SAMPLED)


def quoted(text: str) -> str:
    """Write a text as a string of SQL."""
    return "'" + text.replace("'", "''") + "'"


def file_in_sql(path: Path) -> str:
    """Write a path as a string of SQL for DuckDB's readers, with characters of patterns escaped."""
    return quoted(glob.escape(str(path.resolve())))


def kind_of_ids(values: NDArray[Any]) -> IdKind:
    """Tell the kind of (N,) ids by the type of their array; for an array of objects, by the first object.

    Floats count as integers, since `as_text` refuses floats that are not whole numbers.
    """
    if values.dtype.kind == "O" and len(values):
        return "text" if isinstance(values[0], str | bytes) else "integers"
    return "integers" if values.dtype.kind in "iuf" else "text"
