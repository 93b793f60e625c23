"""Labels stored as floats, class lists that are none, and logits without class lists."""

from __future__ import annotations

from pathlib import Path
from typing import Any

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


# Apart by a semicolon.
NO_LISTS = (
    "{'0', '1'};{'0': 0, '1': 1};'021';\"021\";021;0;;[];[['0'], ['1']];['0', None];['0', True];['0', 1.5];[0, 1.5];"
    '[0;[cat, dog];["0", "\\ud800"];["0", ""]'
)


class TestClassLists:
    """One list of names, the same in every row, in the order of the logits."""

    def csv(self, tmp_path: Path, *cells: str) -> Path:
        n = len(cells)
        columns = {"id": range(n), "label": ["0"] * n, "pred": ["0"] * n, "classes": cells}
        pd.DataFrame(columns).to_csv(tmp_path / "p.csv", index=False)
        return tmp_path / "p.csv"

    @pytest.mark.parametrize("cell", [*NO_LISTS.split(";"), "[" * 5000])
    def test_of_a_csv_that_are_none(self, tmp_path: Path, cell: str) -> None:
        with pytest.raises(DataError, match=r"p\.csv.*`classes`") as caught:
            read_predictions(self.csv(tmp_path, cell, cell))
        assert "\n" not in str(caught.value)
        assert len(str(caught.value)) < 500

    @pytest.mark.parametrize("cell", ["['0', '1']", '["0", "1"]', "[0, 1]", "('0', '1')", "[0.0, 1.0]"])
    def test_of_a_csv_in_each_notation(self, tmp_path: Path, cell: str) -> None:
        assert read_predictions(self.csv(tmp_path, cell, cell)).classes == ("0", "1")

    def test_of_a_csv_that_differ(self, tmp_path: Path) -> None:
        same, other = "['0', '1']", "['1', '0']"
        assert read_predictions(self.csv(tmp_path, same, '["0", "1"]')).classes == ("0", "1")
        with pytest.raises(DataError, match=r"4 .*`classes` differ.*rows 2, 3, 4 and 1 more"):
            read_predictions(self.csv(tmp_path, same, other, other, other, same, other))

    @pytest.mark.parametrize(
        "lists",
        [
            pa.array([["cat", "dog"], ["cat", "dog", "emu"]]), pa.array([["cat", "dog"], None]),
            pa.array([["cat", "dog"], None], type=pa.list_(pa.string(), 2)), pa.array([["cat", None]] * 2),
            pa.array([[["cat"], ["dog"]]] * 2), pa.array([[], []], type=pa.list_(pa.string())),
            pa.array([[True, False]] * 2), pa.array([[0.5, 1.0]] * 2), pa.array(["021", "021"]),
            pa.array([{"cat": 0, "dog": 1}] * 2),
        ],
    )  # fmt: skip
    def test_of_a_parquet_file_that_are_none(self, tmp_path: Path, lists: pa.Array) -> None:
        file = table(tmp_path / "p.parquet", pred=pa.array(["cat", "cat"]), classes=lists)
        with pytest.raises(DataError, match=r"p\.parquet.*`classes`"):
            read_predictions(file)

    @pytest.mark.parametrize(
        "kind", [pa.list_(pa.string(), 2), pa.large_list(pa.dictionary(pa.int8(), pa.string()))]
    )
    def test_of_a_parquet_file_in_each_type(self, tmp_path: Path, kind: pa.DataType) -> None:
        lists = pa.array([["cat", "dog"]] * 2, type=kind)
        file = table(tmp_path / "p.parquet", pred=pa.array(["cat", "cat"]), classes=lists)
        assert read_predictions(file).classes == ("cat", "dog")

    @pytest.mark.parametrize("value", ["021", [["cat", "dog"]], [], [0.5, 1], [True, False]])
    def test_of_an_archive_that_are_none(self, tmp_path: Path, value: Any) -> None:
        file = write(tmp_path / "p.npz", id=[1], label=["cat"], pred=["cat"], classes=value)
        with pytest.raises(DataError, match=r"p\.npz.*`classes`"):
            read_predictions(file)


class TestLogitsWithoutClasses:
    """Columns are classes 0 to C-1, and so the labels must count from 0."""

    @pytest.mark.parametrize(
        ("labels", "message"),
        [
            ([1, 2, 3, 3], r"count from 1 .*\(3 of 4 predictions are right one class further, 0 as they stand\)"),
            ([1, 2, 2, 1], r"count from 1 .*\(3 of 4 predictions"),
            ([-1, 0, 1, -1], r"2 of 4 labels .*0\.\.2 \(-1\)"),
            (["0", "01", "2", "1"], r"1 of 4 labels .*\(01\)"),
            (["0", "-0", "2", "1"], r"1 of 4 labels .*\(-0\)"),
            (["0", "²", "2", "1"], "need `classes`"),
        ],
    )  # fmt: skip
    def test_labels_outside(self, tmp_path: Path, labels: list[Any], message: str) -> None:
        file = write(tmp_path / "p.npz", id=list("abcd"), label=labels, logits=np.eye(4, 3))
        with pytest.raises(DataError, match=message) as caught:
            read_predictions(file)
        assert caught.value.exit_code == 4

    def test_labels_above_may_be_new_classes_where_the_count_begins_at_0(self, tmp_path: Path) -> None:
        file = write(tmp_path / "p.npz", id=list("abcd"), label=[0, 1, 2, 3], logits=np.eye(4, 3))
        assert read_predictions(file).classes == ("0", "1", "2")

    def test_minus_one_is_a_class_where_classes_say_so(self, tmp_path: Path) -> None:
        file = write(tmp_path / "p.npz", id=["a", "b"], label=[-1, 1], logits=np.eye(2), classes=["-1", "1"])
        assert read_predictions(file).preds.tolist() == ["-1", "1"]
