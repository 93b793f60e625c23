"""Predictions of every form, in memory and as answers that are saved; what is wrong with one is said in a line."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet
import pytest

from mptctl.errors import DataError, NonFiniteError
from mptctl.evaluation.reading.answers import answers_from_logits
from mptctl.evaluation.reading.logits import first_maximum, row_blocks
from mptctl.evaluation.reading.predictions import build_predictions, read_predictions
from mptctl.evaluation.reading.readers import FORMS
from tests.evaluation.files import CLASSES, IDS, LABELS, LOGITS, WRITERS, write


def test_a_form_is_read_because_its_file_is_there() -> None:
    assert set(FORMS) == WRITERS.keys()


def test_words_that_mean_nothing_to_pandas_are_classes(path: Path) -> None:
    found = read_predictions(
        write(path, id=["1", "2", "3"], label=["NA", "null", "nan"], pred=["nan", "NA", "null"])
    )
    assert found.labels.tolist() == ["NA", "null", "nan"]
    assert found.preds.tolist() == ["nan", "NA", "null"]


def test_stored_logits_are_mapped_and_compressed_ones_read(tmp_path: Path) -> None:
    """Also where they lie column by column."""
    for save, logits in (
        (np.savez, LOGITS), (np.savez, np.asfortranarray(LOGITS)), (np.savez_compressed, LOGITS),
    ):  # fmt: skip
        save(tmp_path / "p.npz", id=IDS, label=LABELS, logits=logits, classes=CLASSES)
        found = read_predictions(tmp_path / "p.npz").logits
        assert found is not None
        assert isinstance(found, np.memmap) == (save is np.savez)
        np.testing.assert_array_equal(found, LOGITS)


@pytest.mark.parametrize("pred", [[1, 0], [0, 1]])
def test_a_pred_beside_logits_is_their_first_maximum_also_where_two_tie(pred: list[int]) -> None:
    logits = np.array([[1.0, 1.0], [2.0, 0.0]])
    kept = build_predictions("x", np.arange(2), np.array([0, 0]), np.array([0, 0]), logits)
    assert kept.preds.tolist() == ["0", "0"]
    with pytest.raises(DataError, match=r"x: `pred` is not the first of the largest `logits` in 1 rows"):
        build_predictions("x", np.arange(2), np.array([0, 0]), np.array(pred), logits)


def test_minus_infinity_is_a_class_that_is_never_answered() -> None:
    logits = np.array([[-np.inf, 1.0], [-np.inf, -np.inf]])
    assert build_predictions("x", np.arange(1), np.array([0]), logits=logits[:1]).preds.tolist() == ["1"]
    with pytest.raises(NonFiniteError, match="1 of 2 rows"):
        build_predictions("x", np.arange(2), np.array([0, 0]), logits=logits)


def test_nan_is_found_in_every_block() -> None:
    logits = np.zeros((5000, 1000), dtype=np.float32)
    assert len(row_blocks(logits)) > 1
    logits[[0, 4999], 999] = np.nan
    with pytest.raises(NonFiniteError, match="2 of 5000 rows"):
        first_maximum(logits, "x")


def test_a_file_that_is_missing_is_named_with_one_that_is_there(tmp_path: Path) -> None:
    (tmp_path / "new.npz").touch()
    with pytest.raises(DataError, match=r"neww\.npz: no such file.*; did you mean new\.npz\?$"):
        read_predictions(tmp_path / "neww.npz")


def test_a_pickle_inside_is_not_run(tmp_path: Path) -> None:
    marker = tmp_path / "ran"

    class Harm:
        def __reduce__(self) -> tuple[Any, ...]:
            return (Path.touch, (marker,))

    objects = np.empty(1, dtype=object)
    objects[0] = Harm()
    np.savez(tmp_path / "p.npz", id=objects, label=objects, pred=objects)
    with pytest.raises(DataError, match="cannot be read"):
        read_predictions(tmp_path / "p.npz")
    assert not marker.exists()


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
