"""Parquet files of all list types, and what is refused of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from mptctl.errors import DataError
from mptctl.evaluation.reading.predictions import read_frame, read_predictions
from tests.evaluation.files import table


class TestDamagedParquet:
    def test_null_numbers_in_logits(self, tmp_path: Path) -> None:
        logits = pa.array([[0.0, 1.0], [None, 1.0]])
        with pytest.raises(DataError, match=r"`logits` holds empty items in 1 rows \(row 2\)"):
            read_predictions(
                table(tmp_path / "p.parquet", logits=logits, classes=pa.array([["cat", "dog"]] * 2))
            )

    @pytest.mark.parametrize("logits", [[[0.0, 1.0], [1.0]], [[0.0, 1.0], [1.0, 2.0, 3.0]], [[], []]])
    def test_logits_of_unequal_lengths(self, tmp_path: Path, logits: list[list[float]]) -> None:
        file = table(tmp_path / "p.parquet", logits=pa.array(logits, type=pa.list_(pa.float64())))
        with pytest.raises(DataError, match=r"different lengths|\(N, C\)"):
            read_predictions(file)

    @pytest.mark.parametrize(
        "kind", [pa.list_(pa.float16()), pa.list_(pa.float32(), 2), pa.large_list(pa.float64())]
    )
    def test_logits_of_every_list_type_over_many_groups(self, tmp_path: Path, kind: pa.DataType) -> None:
        logits = [[0.0, float(i % 3)] for i in range(9000)]
        columns = {
            "id": pa.array(range(9000)),
            "label": pa.array([0] * 9000),
            "logits": pa.array(logits, type=kind),
        }
        parquet.write_table(pa.table(columns), tmp_path / "p.parquet", row_group_size=1000)
        found = read_predictions(tmp_path / "p.parquet").logits
        assert found is not None
        np.testing.assert_array_equal(found, np.array(logits))


def test_text_may_be_stored_as_views(tmp_path: Path) -> None:
    columns = {name: pa.array(["a", "b"], pa.string_view()) for name in ("id", "label", "pred")}
    parquet.write_table(pa.table(columns), tmp_path / "p.parquet")
    found = read_predictions(tmp_path / "p.parquet")
    assert (found.ids.tolist(), found.labels.tolist(), found.preds.tolist()) == (["a", "b"],) * 3


@pytest.mark.parametrize("odd", ["", "a\0b", None])
def test_an_odd_value_of_a_dictionary_that_is_in_no_row(tmp_path: Path, odd: str | None) -> None:
    values = pa.DictionaryArray.from_arrays(pa.array([0, 1, 0], pa.int8()), pa.array(["cat", "dog", odd]))
    columns = pa.table({"id": pa.array(["a", "b", "c"]), "label": values, "pred": values})
    assert read_frame(columns, "new").table.labels == {"cat": 2, "dog": 1}
    used = pa.DictionaryArray.from_arrays(pa.array([0, 2, 0], pa.int8()), values.dictionary)
    with pytest.raises(DataError, match=r"new: 1 .*`pred`.*row 2"):
        read_frame(columns.set_column(2, "pred", used), "new")


def test_rows_are_counted_over_batches(tmp_path: Path) -> None:
    n = 2**19 + 10
    label = pa.array(np.where(np.arange(n) == n - 3, "", "cat"))
    columns = {"id": pa.array(np.arange(n)), "label": pa.array(["cat"] * n), "pred": label}
    parquet.write_table(pa.table(columns), tmp_path / "p.parquet")
    with pytest.raises(DataError, match=rf"1 empty cells in `pred` .*\(row {n - 2}\)"):
        read_predictions(tmp_path / "p.parquet")
