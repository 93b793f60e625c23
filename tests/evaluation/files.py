"""Small predictions files of every form, for the tests of their readers."""

from __future__ import annotations

import json
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
    if path.suffix == ".npz":
        np.savez(path, **{key: np.asarray(value) for key, value in columns.items()})
        return path
    table = {key: list(value) for key, value in columns.items() if key not in ("logits", "classes")}
    rows = len(columns["id"])
    if path.suffix == ".csv":
        if "logits" in columns:
            table["logits"] = [json.dumps([float(v) for v in row]) for row in columns["logits"]]
        if "classes" in columns:
            table["classes"] = [str(list(columns["classes"]))] * rows
        pd.DataFrame(table).to_csv(path, index=False)
    else:
        if "logits" in columns:
            table["logits"] = [[float(v) for v in row] for row in columns["logits"]]
        if "classes" in columns:
            table["classes"] = [list(columns["classes"])] * rows
        pd.DataFrame(table).to_parquet(path)
    return path


def table(path: Path, **columns: pa.Array) -> Path:
    """A Parquet file of columns of any Arrow type; `id` and `label` where they are not given."""
    n = len(next(iter(columns.values())))
    names = pa.array([f"s{i}" for i in range(n)])
    parquet.write_table(pa.table({"id": names, "label": pa.array(["cat"] * n), **columns}), path)
    return path
