"""Small predictions files of every form, for the tests of their readers."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import parquet

IDS = ["x/1.png", "x/2.png", "y/3.png"]
LABELS = ["cat", "dog", "cat"]
LOGITS = np.array([[2.0, 1.0], [0.5, 0.25], [-1.0, 3.0]], dtype=np.float32)
CLASSES = ["cat", "dog"]


def write(path: Path, **columns: Any) -> Path:
    """One set of columns in the form that the ending asks for."""
    WRITERS[path.suffix](path, columns)
    return path


def _npz(path: Path, columns: dict[str, Any]) -> None:
    np.savez(path, **{key: np.asarray(value) for key, value in columns.items()})


def _csv(path: Path, columns: dict[str, Any]) -> None:
    table = rows_of(columns)
    if "logits" in table:
        table["logits"] = [json.dumps(row) for row in table["logits"]]
    if "classes" in table:
        table["classes"] = [str(row) for row in table["classes"]]
    pd.DataFrame(table).to_csv(path, index=False)


def _parquet(path: Path, columns: dict[str, Any]) -> None:
    pd.DataFrame(rows_of(columns)).to_parquet(path)


def rows_of(columns: dict[str, Any]) -> dict[str, list[Any]]:
    """The columns of a table: one value a sample, logits as a list of numbers, the class list in each row."""
    table = {key: list(value) for key, value in columns.items() if key not in ("logits", "classes")}
    if "logits" in columns:
        table["logits"] = [[float(v) for v in row] for row in columns["logits"]]
    if "classes" in columns:
        table["classes"] = [list(columns["classes"])] * len(columns["id"])
    return table


# The forms that are read, each with what writes it: every test that takes a `path` is run on each of them.
WRITERS: dict[str, Callable[[Path, dict[str, Any]], None]] = {
    ".csv": _csv,
    ".npz": _npz,
    ".parquet": _parquet,
}


def table(path: Path, **columns: pa.Array) -> Path:
    """A Parquet file of columns of any Arrow type; `id` and `label` where they are not given."""
    n = len(next(iter(columns.values())))
    names = pa.array([f"s{i}" for i in range(n)])
    parquet.write_table(pa.table({"id": names, "label": pa.array(["cat"] * n), **columns}), path)
    return path
