"""Files that a name stands for: a file, the files that a pattern matches, the parts in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyarrow import parquet

from mptctl.errors import DataError, UsageError
from mptctl.evaluation.evaluate import compare
from mptctl.evaluation.reading.predictions import read_predictions
from mptctl.evaluation.reading.readers import is_predictions_file
from mptctl.evaluation.reading.side_table import side_headers
from tests.evaluation.files import WRITERS, write

PARTS = (([1, 2], ["a", "b"], ["a", "b"]), ([3], ["a"], ["b"]), ([4, 5], ["b", "b"], ["a", "b"]))


def folder_of_parts(folder: Path, form: str, **more: Any) -> Path:
    folder.mkdir()
    for number, (ids, labels, preds) in enumerate(PARTS):
        write(folder / f"part-{number}{form}", id=ids, label=labels, pred=preds, **more)
    return folder


@pytest.mark.parametrize("form", list(WRITERS))
def test_parts_are_one_table_in_the_order_of_their_names(tmp_path: Path, form: str) -> None:
    folder = folder_of_parts(tmp_path / "out", form)
    (folder / "_SUCCESS").write_text("")
    (folder / ".part-0.crc").write_text("")
    for path in (folder, folder / f"part-*{form}", folder / "part-[0-2]*"):
        assert is_predictions_file(path)
        found = read_predictions(path)
        assert found.ids.tolist() == ["1", "2", "3", "4", "5"]
        assert found.preds.tolist() == ["a", "b", "b", "a", "b"]
        assert found.name == str(path)
    whole = write(tmp_path / f"all{form}", id=[5, 4, 3, 2, 1], label=list("bbaba"), pred=list("bbaba"))
    assert compare(read_predictions(whole), read_predictions(folder)).counts.negative_flips == 2


@pytest.mark.parametrize("form", [".csv", ".parquet"])
def test_parts_beside_some_without_rows(tmp_path: Path, form: str) -> None:
    folder = folder_of_parts(tmp_path / "out", form)
    for name in ("empty", "part-1-empty"):
        file = folder / f"{name}{form}"
        if form == ".csv":
            file.write_text("id,label,pred\n")
        else:
            whole = parquet.read_table(folder / "part-0.parquet")
            parquet.write_table(whole.slice(0, 0), file)
    assert read_predictions(folder).ids.tolist() == ["1", "2", "3", "4", "5"]
    write(folder / f"part-3{form}", id=[2], label=["b"], pred=["b"])
    with pytest.raises(DataError, match=r"1 ids stand there more than once \(2\)"):
        compare(read_predictions(folder), read_predictions(folder))


def test_logits_in_parts(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    folder.mkdir()
    for number in range(2):
        ids = [2 * number, 2 * number + 1]
        write(folder / f"{number}.npz", id=ids, label=[0, 1], logits=np.eye(2) + number)
    found = read_predictions(folder)
    assert found.logits is not None
    assert found.logits.shape == (4, 2)
    assert found.preds.tolist() == ["0", "1", "0", "1"]


def test_a_file_whose_name_looks_like_a_pattern(tmp_path: Path) -> None:
    for form in WRITERS:
        file = write(tmp_path / f"run[1]*{form}", id=[1], label=["a"], pred=["a"])
        write(tmp_path / f"run1{form}", id=[2], label=["a"], pred=["a"])
        assert read_predictions(file).ids.tolist() == ["1"]


def test_an_empty_folder_in_place_of_a_table_is_told_as_empty(tmp_path: Path) -> None:
    (tmp_path / "columns").mkdir()
    with pytest.raises(DataError, match="columns: a folder without parts; write "):
        side_headers(tmp_path / "columns")


def test_a_run_folder_and_an_empty_folder_are_no_predictions(tmp_path: Path) -> None:
    assert not is_predictions_file(tmp_path)
    folder = folder_of_parts(tmp_path / "run", ".npz")
    (folder / "recipe.yaml").write_text("")
    assert not is_predictions_file(folder)


@pytest.mark.parametrize(
    ("form", "part", "columns", "said"),
    [
        *((form, form, {"sample": [3], "label": ["a"], "pred": ["b"]}, rf"part-1\{form}.*`id`") for form in WRITERS),
        *((form, form, {}, rf"part-1\{form}") for form in WRITERS),
        # Of another type than the other parts.
        (".parquet", ".parquet", {"id": ["x"], "label": ["a"], "pred": ["b"]}, "`id`.*part"),
        (".npz", ".npz", {"id": ["x"], "label": ["a"], "pred": ["b"]}, "`id`.*part"),
        (".csv", ".parquet", {"id": [9], "label": ["a"], "pred": ["a"]}, r"several forms \(\.csv, \.parquet\)"),
    ],
)  # fmt: skip
def test_a_part_that_is_cut_or_of_another_kind_is_named(
    tmp_path: Path, form: str, part: str, columns: dict[str, Any], said: str
) -> None:
    folder = folder_of_parts(tmp_path / "out", form)
    file = folder / f"part-1{part}"
    if columns:
        write(file, **columns)
    else:
        file.write_bytes(b"PAR1 cut")
    with pytest.raises((DataError, UsageError), match=said):
        read_predictions(folder)


def test_what_is_found_in_place_of_columns_or_labels_is_said(tmp_path: Path) -> None:
    """Without the index that pandas writes, and with an example of labels of each type."""
    (tmp_path / "p.csv").write_text(",image,target,prediction\n0,1.jpg,cat,dog\n")
    with pytest.raises(DataError, match="found image, target, prediction; name them"):
        read_predictions(tmp_path / "p.csv")
    old = write(tmp_path / "old.csv", id=["a", "b"], label=[3, 4], pred=[3, 4])
    new = write(tmp_path / "new.parquet", id=["a", "b"], label=["cat", "dog"], pred=["cat", "dog"])
    with pytest.raises(DataError, match=r"new\.parquet: 2 labels differ from .*old\.csv \(a: 3 or cat, "):
        compare(read_predictions(old), read_predictions(new))
