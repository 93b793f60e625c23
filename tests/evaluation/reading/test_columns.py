"""Values that are no labels, class lists that are none: refused the same in every form of file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from mptctl.errors import DataError
from mptctl.evaluation.reading.predictions import (
    build_predictions,
    read_predictions,
)
from tests.evaluation.files import IDS, table, write


class TestValuesThatAreNoLabels:
    """Nothing is cast silently, in any column and any form of file."""

    @pytest.mark.parametrize("column", ["id", "label", "pred"])
    @pytest.mark.parametrize(
        ("values", "message"),
        [
            (np.array([0.0, 1.5, 2.0]), r"1 of 3 .*not whole.*1\.5"),
            (np.array([0.0, np.inf, np.nan]), r"2 of 3 .*not whole.*inf, nan"),
            (np.array([1e19, 2e19, 1e308]), r"3 of 3 .*1e\+19, 2e\+19, 1e\+308"),
            (np.array([2.0**53, 1.0, 2.0]), r"1 of 3 "),
            (np.array([1.0, -(2.0**24), 2.0], dtype=np.float32), r"1 of 3 "),
            (np.array([2048, 2049, 1], dtype=np.float16), r"2 of 3 "),
            (np.array([True, False, True]), "bool"),
            (np.array(["2026-01-01"] * 3, dtype="datetime64[s]"), "datetime64"),
        ],
    )
    @pytest.mark.parametrize("ending", [".npz", ".parquet"])
    def test_in_arrays_and_parquet(
        self, tmp_path: Path, ending: str, column: str, values: np.ndarray, message: str
    ) -> None:
        columns = {"id": [1, 2, 3], "label": [0, 1, 2], "pred": [0, 1, 2], column: values}
        file = tmp_path / f"p{ending}"
        if ending == ".npz":
            np.savez(file, **columns)
        else:
            parquet.write_table(pa.table({key: pa.array(value) for key, value in columns.items()}), file)
        with pytest.raises(DataError, match=rf"p\{ending}: .*`{column}`.*(integers|text)") as caught:
            read_predictions(file)
        if values.dtype.kind == "f":
            assert re.search(message, str(caught.value))
        assert "\n" not in str(caught.value)
        assert caught.value.exit_code == 4

    @pytest.mark.parametrize(
        "values", [np.array([1j, 2, 3]), np.zeros(3, dtype=[("a", "i4")]), np.zeros(3, dtype="m8[s]")]
    )
    def test_complex_numbers_structures_and_times(self, tmp_path: Path, values: np.ndarray) -> None:
        file = write(tmp_path / "p.npz", id=[1, 2, 3], label=values, pred=[0, 1, 2])
        with pytest.raises(DataError, match=r"`label` holds .*; write integers or text"):
            read_predictions(file)

    @pytest.mark.parametrize(
        ("dtype", "limit"), [(np.float16, 2**11), (np.float32, 2**24), (np.float64, 2**53)]
    )
    def test_whole_numbers_stored_as_floats_are_integers_where_they_are_exact(
        self, tmp_path: Path, dtype: type, limit: int
    ) -> None:
        values = np.array([0, limit - 1, -(limit - 1)], dtype=dtype)
        for ending in (".npz", ".parquet"):
            file = tmp_path / f"p{ending}"
            if ending == ".npz":
                np.savez(file, id=[1, 2, 3], label=values, pred=values)
            else:
                columns = {"id": pa.array([1, 2, 3]), "label": pa.array(values), "pred": pa.array(values)}
                parquet.write_table(pa.table(columns), file)
            found = read_predictions(file)
            assert found.labels.tolist() == ["0", str(limit - 1), str(1 - limit)]
            assert found.preds.tolist() == found.labels.tolist()

    @pytest.mark.parametrize("text", ["a\x00b", "\ud800", "\udfffx"])
    def test_text_that_is_none(self, tmp_path: Path, text: str) -> None:
        file = write(tmp_path / "p.npz", id=IDS, label=[text, "cat", text], pred=["cat"] * 3)
        with pytest.raises(DataError, match=r"2 of 3 .*`label`.*rows? 1, 3"):
            read_predictions(file)
        objects = np.array([text, "cat", "a\x00"], dtype=object)
        with pytest.raises(DataError, match=r"2 of 3 .*`label`.*rows? 1, 3"):
            build_predictions("x", np.arange(3), objects, objects)

    def test_bytes_that_are_no_utf8(self, tmp_path: Path) -> None:
        file = write(tmp_path / "p.npz", id=IDS, label=np.array([b"cat", b"\xff", b"x"]), pred=[b"cat"] * 3)
        with pytest.raises(DataError, match=r"1 of 3 .*`label`.*UTF-8"):
            read_predictions(file)

    def test_null_rows_of_a_parquet_column(self, tmp_path: Path) -> None:
        for values in (pa.array([0, None, 2]), pa.array(["a", None, "b"]), pa.array([0.0, None, 1.0])):
            with pytest.raises(DataError, match=r"1 empty cells in `pred` of 3 rows \(row 2\)"):
                read_predictions(table(tmp_path / "p.parquet", pred=values))

    def test_a_dictionary_column_is_read_as_what_it_holds(self, tmp_path: Path) -> None:
        values = pa.array(["cat", "dog", "cat"]).dictionary_encode()
        assert read_predictions(table(tmp_path / "p.parquet", pred=values)).preds.tolist() == [
            "cat",
            "dog",
            "cat",
        ]


class TestClassLists:
    """One list of names, the same in every row, in the order of the logits."""

    def csv(self, tmp_path: Path, *cells: str) -> Path:
        n = len(cells)
        columns = {"id": range(n), "label": ["0"] * n, "pred": ["0"] * n, "classes": cells}
        pd.DataFrame(columns).to_csv(tmp_path / "p.csv", index=False)
        return tmp_path / "p.csv"

    @pytest.mark.parametrize(
        "cell",
        [
            "{'0', '1'}",
            "{'0': 0, '1': 1}",
            "'021'",
            '"021"',
            "021",
            "0",
            "",
            "[]",
            "[['0'], ['1']]",
            "['0', None]",
            "['0', True]",
            "['0', 1.5]",
            "[0, 1.5]",
            "[0",
            "[cat, dog]",
            '["0", "\\ud800"]',
            '["0", ""]',
            "[" * 5000,
        ],
    )
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
            pa.array([["cat", "dog"], ["dog", "cat"]]),
            pa.array([["cat", "dog"], ["cat", "dog", "emu"]]),
            pa.array([["cat", "dog"], None]),
            pa.array([["cat", "dog"], None], type=pa.list_(pa.string(), 2)),
            pa.array([["cat", None], ["cat", None]]),
            pa.array([[["cat"], ["dog"]]] * 2),
            pa.array([[], []], type=pa.list_(pa.string())),
            pa.array([[True, False]] * 2),
            pa.array([[0.5, 1.0]] * 2),
            pa.array(["021", "021"]),
            pa.array([{"cat": 0, "dog": 1}] * 2),
        ],
    )
    def test_of_a_parquet_file_that_are_none(self, tmp_path: Path, lists: pa.Array) -> None:
        file = table(tmp_path / "p.parquet", pred=pa.array(["cat", "cat"]), classes=lists)
        with pytest.raises(DataError, match=r"p\.parquet.*`classes`"):
            read_predictions(file)

    @pytest.mark.parametrize(
        "kind",
        [
            pa.list_(pa.string()),
            pa.list_(pa.string(), 2),
            pa.large_list(pa.dictionary(pa.int8(), pa.string())),
        ],
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
            (
                [1, 2, 3, 3],
                r"count from 1 .*\(3 of 4 predictions are right one class further, 0 as they stand\)",
            ),
            ([1, 2, 2, 1], r"count from 1 .*\(3 of 4 predictions"),
            ([-1, 0, 1, -1], r"2 of 4 labels .*0\.\.2 \(-1\)"),
            (["0", "01", "2", "1"], r"1 of 4 labels .*\(01\)"),
            (["0", "-0", "2", "1"], r"1 of 4 labels .*\(-0\)"),
            (["0", "²", "2", "1"], "need `classes`"),
        ],
    )
    def test_labels_outside(self, path: Path, labels: list[Any], message: str) -> None:
        file = write(path, id=list("abcd"), label=labels, logits=np.eye(4, 3))
        with pytest.raises(DataError, match=message) as caught:
            read_predictions(file)
        assert caught.value.exit_code == 4

    def test_labels_above_may_be_new_classes_where_the_count_begins_at_0(self, path: Path) -> None:
        file = write(path, id=list("abcd"), label=[0, 1, 2, 3], logits=np.eye(4, 3))
        assert read_predictions(file).classes == ("0", "1", "2")

    def test_minus_one_is_a_class_where_classes_say_so(self, path: Path) -> None:
        file = write(path, id=list("ab"), label=[-1, 1], logits=np.eye(2), classes=["-1", "1"])
        assert read_predictions(file).preds.tolist() == ["-1", "1"]
