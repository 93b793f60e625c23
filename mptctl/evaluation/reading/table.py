"""Tables of one model's ids, labels and answers, in memory or in files that DuckDB reads."""

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

# Kinds of ids: integers of at most 64 bits, text, or text of a CSV of which every value is an integer's.
IdKind = Literal["integers", "text", "either"]
# Rows, about, that stand for all of them: see `FileTable.sample`.
SAMPLED = 20_000


@dataclass(frozen=True)
class ArrayTable:
    """Answers in memory; as `FileTable`.

    Attributes:
        ids, truth, preds: (N,) text.
        id_kind: what the ids were before they became text.
    """

    ids: NDArray[np.str_]
    truth: NDArray[np.str_]
    preds: NDArray[np.str_]
    id_kind: IdKind

    @property
    def rows(self) -> int:
        return len(self.ids)

    @cached_property
    def labels(self) -> Counter[str]:
        return Counter(self.truth.tolist())

    @cached_property
    def answers(self) -> Counter[str]:
        return Counter(self.preds.tolist())

    @cached_property
    def sample(self) -> list[str]:
        return sorted(self.ids[:: sample_step(self.rows)].tolist())

    def relation(self, work: Workspace) -> str:
        columns = {"row": np.arange(self.rows), "text": self.ids, "label": self.truth, "pred": self.preds}
        name = work.register(columns)
        weakref.finalize(self, work.drop_later, f"DROP VIEW IF EXISTS {name}")
        number = "::BIGINT" if self.id_kind == "integers" else ""
        return f"(SELECT row, text{number} AS id, label, pred FROM {name})"

    def ids_at(self, rows: Sequence[int]) -> list[str]:
        return [str(self.ids[row]) for row in rows]

    def column(self, name: Literal["id", "label", "pred"]) -> NDArray[np.str_]:
        return {"id": self.ids, "label": self.truth, "pred": self.preds}[name]


@dataclass(frozen=True, eq=False)
class FileTable:
    """Answers that stay in their files, or in a table that was read from them.

    Attributes:
        source: SQL: a relation of `row` from 0, `id` as integer or text, and `label` and `pred` as text.
        rows: how many it has.
        id_kind: what the ids are.
        labels, answers: how often each class stands there.
        sample: the ids of one row in every `sample_step(rows)`, sorted.
        files: what was read, for whoever watches.
    """

    source: str
    rows: int
    id_kind: IdKind
    labels: Counter[str]
    answers: Counter[str]
    sample: list[str]
    files: str

    def relation(self, work: Workspace) -> str:
        """SQL: the `source`."""
        return self.source

    def ids_at(self, rows: Sequence[int]) -> list[str]:
        """The ids of some rows."""
        wanted = ", ".join(map(str, rows)) or "NULL"
        found = current().fetch(
            f"SELECT row, id::VARCHAR FROM {self.source} WHERE row IN ({wanted})",
            f"reading {self.files}",
            self.rows,
        )
        ids = dict(found)
        return [ids[row] for row in rows]

    def column(self, name: Literal["id", "label", "pred"]) -> NDArray[np.str_]:
        """(N,) a column as text."""
        query = f"SELECT {name}::VARCHAR AS value FROM {self.source} ORDER BY row"
        values: Any = current().arrays(query, f"reading {self.files}", self.rows)["value"]
        return np.asarray(values, dtype=np.str_)


Table = ArrayTable | FileTable


def sample_step(rows: int) -> int:
    """Every such row of a table of so many belongs to its sample."""
    return max(1, rows // SAMPLED)


def quoted(text: str) -> str:
    """Text as it stands in SQL."""
    return "'" + text.replace("'", "''") + "'"


def file_in_sql(path: Path) -> str:
    """A file as DuckDB's readers take it: without what they would take for a pattern."""
    return quoted(glob.escape(str(path.resolve())))


def kind_of_ids(values: NDArray[Any]) -> IdKind:
    """The kind of ids by the type of their array, of objects by that of the first.

    Floats are taken for integers: `as_text` refuses those that are not whole numbers.
    """
    if values.dtype.kind == "O" and len(values):
        return "text" if isinstance(values[0], str | bytes) else "integers"
    return "integers" if values.dtype.kind in "iuf" else "text"
