"""Labels stored as floats, class lists that are none, and logits without class lists."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from mptctl.errors import DataError
from mptctl.evaluation.reading.predictions import read_predictions
from tests.evaluation.files import table, write


@pytest.mark.parametrize("ending", [".npz", ".parquet"])
@pytest.mark.parametrize(("dtype", "limit"), [("f2", 2**11), ("f4", 2**24), ("f8", 2**53)])
def test_whole_numbers_stored_as_floats_are_integers_where_they_are_exact(
    tmp_path: Path, dtype: str, limit: int, ending: str
) -> None:
    values = np.array([0, limit - 1, -(limit - 1)], dtype=dtype)
    found = read_predictions(write(tmp_path / f"p{ending}", id=[1, 2, 3], label=values, pred=values))
    assert found.labels.tolist() == found.preds.tolist() == ["0", str(limit - 1), str(1 - limit)]
    values[0] = -limit
    with pytest.raises(DataError, match=rf"p\{ending}: .*1 of 3 .*`label`.*(integers|text)"):
        read_predictions(write(tmp_path / f"p{ending}", id=[1, 2, 3], label=values, pred=values))


@pytest.mark.parametrize("cell", ["['0', '1']", '["0", "1"]', "[0, 1]", "('0', '1')", "[0.0, 1.0]"])
def test_class_lists_of_a_csv_in_each_notation(tmp_path: Path, cell: str) -> None:
    """One list of names, the same in every row, in the order of the logits."""
    columns = {"id": [1, 2], "label": ["0", "0"], "pred": ["0", "0"], "classes": ["['0', '1']", cell]}
    pd.DataFrame(columns).to_csv(tmp_path / "p.csv", index=False)
    assert read_predictions(tmp_path / "p.csv").classes == ("0", "1")


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.string(), 2), pa.large_list(pa.dictionary(pa.int8(), pa.string()))]
)
def test_class_lists_of_a_parquet_file_in_each_type(tmp_path: Path, kind: pa.DataType) -> None:
    lists = pa.array([["cat", "dog"]] * 2, type=kind)
    file = table(tmp_path / "p.parquet", pred=pa.array(["cat", "cat"]), classes=lists)
    assert read_predictions(file).classes == ("cat", "dog")


def test_columns_of_logits_are_classes_from_0_on_where_no_classes_say_otherwise(tmp_path: Path) -> None:
    """Labels above may be new classes; -1 may be a class."""
    file = write(tmp_path / "p.npz", id=list("abcd"), label=[0, 1, 2, 3], logits=np.eye(4, 3))
    assert read_predictions(file).classes == ("0", "1", "2")
    file = write(tmp_path / "p.npz", id=["a", "b"], label=[-1, 1], logits=np.eye(2), classes=["-1", "1"])
    assert read_predictions(file).preds.tolist() == ["-1", "1"]
