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


class TestClassLists:
    """One list of names, the same in every row, in the order of the logits."""

    def csv(self, tmp_path: Path, *cells: str) -> Path:
        n = len(cells)
        columns = {"id": range(n), "label": ["0"] * n, "pred": ["0"] * n, "classes": cells}
        pd.DataFrame(columns).to_csv(tmp_path / "p.csv", index=False)
        return tmp_path / "p.csv"

    @pytest.mark.parametrize("cell", ["['0', '1']", '["0", "1"]', "[0, 1]", "('0', '1')", "[0.0, 1.0]"])
    def test_of_a_csv_in_each_notation(self, tmp_path: Path, cell: str) -> None:
        assert read_predictions(self.csv(tmp_path, cell, cell)).classes == ("0", "1")

    def test_of_a_csv_that_differ(self, tmp_path: Path) -> None:
        same, other = "['0', '1']", "['1', '0']"
        assert read_predictions(self.csv(tmp_path, same, '["0", "1"]')).classes == ("0", "1")
        with pytest.raises(DataError, match=r"4 .*`classes` differ.*rows 2, 3, 4 and 1 more"):
            read_predictions(self.csv(tmp_path, same, other, other, other, same, other))

    @pytest.mark.parametrize(
        "kind", [pa.list_(pa.string(), 2), pa.large_list(pa.dictionary(pa.int8(), pa.string()))]
    )
    def test_of_a_parquet_file_in_each_type(self, tmp_path: Path, kind: pa.DataType) -> None:
        lists = pa.array([["cat", "dog"]] * 2, type=kind)
        file = table(tmp_path / "p.parquet", pred=pa.array(["cat", "cat"]), classes=lists)
        assert read_predictions(file).classes == ("cat", "dog")


class TestLogitsWithoutClasses:
    """Columns are classes 0 to C-1, and so the labels must count from 0."""

    def test_labels_above_may_be_new_classes_where_the_count_begins_at_0(self, tmp_path: Path) -> None:
        file = write(tmp_path / "p.npz", id=list("abcd"), label=[0, 1, 2, 3], logits=np.eye(4, 3))
        assert read_predictions(file).classes == ("0", "1", "2")

    def test_minus_one_is_a_class_where_classes_say_so(self, tmp_path: Path) -> None:
        file = write(tmp_path / "p.npz", id=["a", "b"], label=[-1, 1], logits=np.eye(2), classes=["-1", "1"])
        assert read_predictions(file).preds.tolist() == ["-1", "1"]
