"""Answers without labels: confidences by hand, and the files that they are written to."""

from __future__ import annotations

import csv
import math
from pathlib import Path

import numpy as np
import pyarrow.parquet
import pytest

from mptctl.errors import NonFiniteError
from mptctl.evaluation.reading.answers import answers_from_logits


def test_confidences_by_hand() -> None:
    """Softmax of 0 and ln 3 is 1/4 and 3/4; of two equal logits the first is the answer, with one half."""
    logits = np.array([[0, math.log(3)], [1000, 1000]], dtype=np.float32)
    found = answers_from_logits("m", np.array(["a", "b"]), logits, ("cat", "dog"))
    assert found.answers.tolist() == ["dog", "cat"]
    assert found.confidences.tolist() == pytest.approx([0.75, 0.5])
    assert len(found) == 2
    with pytest.raises(NonFiniteError, match="m: 1 of 2 rows"):
        answers_from_logits("m", np.array(["a", "b"]), logits * np.float32([[1, np.nan], [1, 1]]), ("x", "y"))


def test_names_with_commas_quotes_and_breaks_come_back(tmp_path: Path) -> None:
    ids = np.array(['a,"b"/ü.jpg', "two\nlines.jpg"])
    found = answers_from_logits("m", ids, np.eye(2, dtype=np.float32), ("x,y", "z"))
    with found.save(tmp_path / "a.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["id"] for row in rows] == ids.tolist()
    assert [row["pred"] for row in rows] == ["x,y", "z"]
    assert [float(row["confidence"]) for row in rows] == found.confidences.tolist()


def test_a_large_table_is_written_block_by_block(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    ids, logits = np.arange(3000).astype(str), rng.normal(size=(3000, 500)).astype(np.float32)
    found = answers_from_logits("m", ids, logits, tuple(f"class {i}" for i in range(500)))
    table = pyarrow.parquet.read_table(found.save(tmp_path / "a.parquet"))
    assert table["id"].to_pylist() == ids.tolist()
    assert np.array_equal(np.stack(table["logits"].to_numpy()), logits)
    assert table["classes"][2999].as_py() == list(found.classes)
