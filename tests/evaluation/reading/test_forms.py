"""Files of predictions of each form: what all writers leave is read, and what is damaged is refused."""

from __future__ import annotations

import zipfile
import zlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from mptctl.errors import DataError, StorageError
from mptctl.evaluation.reading.predictions import read_frame, read_predictions
from tests.evaluation.files import write


@pytest.mark.parametrize("more", ["", '""'])
@pytest.mark.parametrize("end", ["\n", "\r\n", ""])
def test_an_empty_field_too_many_is_none_to_be_dropped(tmp_path: Path, more: str, end: str) -> None:
    """An id with a comma that nobody quoted shifts its row by a field, and the last one is empty."""
    line = end or "\n"
    rows = ["id,label,pred,note", "a,0,0,", '"b,c",0,1,', f"1,d,0,0,{more}"]
    (tmp_path / "p.csv").write_text(line.join(rows) + end, newline="")
    with pytest.raises(DataError, match=r"1 rows? .* 4 fields .*row 3 has 5"):
        read_predictions(tmp_path / "p.csv")
    (tmp_path / "p.csv").write_text(line.join([*rows[:3], "", "d,0,0,n"]) + end, newline="")
    found = read_predictions(tmp_path / "p.csv")
    assert found.ids.tolist() == ["a", "b,c", "d"]
    assert found.preds.tolist() == ["0", "1", "0"]


@pytest.mark.parametrize(
    ("content", "name"),
    [
        ("\ufeffid,label,pred\na,0,1\n", "a"), ("id,label,pred\r\na,0,1\r\n", "a"), ("id,label,pred\na,0,1", "a"),
        ("id,label,pred\na,0,1\n\n\n", "a"), ("id,label,pred\n\na,0,1\n", "a"),
        ('"id","label","pred"\n"a","0","1"\n', "a"), ("pred,more,id,label\n1,,a,0\n", "a"),
        ("id,label,pred,note,note\na,0,1,x,y\n", "a"),  # repeated columns of others do not matter
        ("id,label,pred\n0007,0,1\n", "0007"), ('id,label,pred\n"5"" nail",0,1\n', '5" nail'),
        ('id,label,pred\n"a,b",0,1\n', "a,b"), ('id,label,pred\n"two\nlines",0,1\n', "two\nlines"),
        ('id,label,pred\n"""",0,1\n', '"'),
    ],
)  # fmt: skip
def test_sound_files_of_all_writers(tmp_path: Path, content: str, name: str) -> None:
    (tmp_path / "p.csv").write_bytes(content.encode())
    found = read_predictions(tmp_path / "p.csv")
    assert (found.ids.tolist(), found.labels.tolist(), found.preds.tolist()) == ([name], ["0"], ["1"])


def test_fields_of_many_thousand_characters(tmp_path: Path) -> None:
    logits = np.zeros((2, 40_000))
    logits[:, 7] = 1.25
    file = write(tmp_path / "p.csv", id=["a", "b"], label=[7, 0], logits=logits)
    assert read_predictions(file).preds.tolist() == ["7", "7"]


def test_rows_are_counted_over_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of 1,000 bytes: the wrong cell, the quote and the character that two blocks share are in a later one."""
    monkeypatch.setattr("mptctl.evaluation.reading.csv_file.BLOCK", 1000)
    rows = [f'"n{i}","é",b' for i in range(500)]
    file = tmp_path / "p.csv"
    file.write_text("\n".join(["id,label,pred", *rows]), encoding="utf-8")
    found = read_predictions(file)
    assert found.ids.tolist() == [f"n{i}" for i in range(500)]
    assert found.labels.tolist() == ["é"] * 500
    for wrong, said in (
        ("n,,b", r"1 empty cells in `label` .*\(row 401\)"),
        ('n,x",b', "line 402 has a quote"),
        ("n,b", r"1 rows have other than the 3 fields of the header \(row 401 has 2\)"),
    ):
        file.write_text("\n".join(["id,label,pred", *rows[:400], wrong, *rows[400:]]), encoding="utf-8")
        with pytest.raises(DataError, match=said):
            read_predictions(file)
    file.write_bytes("\n".join(["id,label,pred", *rows[:400]]).encode() + b"\nn,\xff,b\n")
    with pytest.raises(DataError, match="line 402 is not UTF-8"):
        read_predictions(file)


def test_one_array_twice(tmp_path: Path) -> None:
    file = write(tmp_path / "p.npz", id=[1, 2], label=[0, 1], pred=[0, 1])
    with zipfile.ZipFile(file) as archive:
        label = archive.read("label.npy")
    with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("label.npy", label)
    with pytest.raises(DataError, match="`label` heads 2 columns"):
        read_predictions(file)


def test_more_than_the_machines_memory_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """A header of 4 TB whose archive says so too: nothing is allocated."""
    file, header = tmp_path / "p.npz", np.lib.format.magic(1, 0)
    text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000, 1000), }".ljust(117) + b"\n"
    member = header + len(text).to_bytes(2, "little") + text
    write(file, id=[1], label=[0])
    size = len(member) + 4 * 10**12
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("logits.npy", member)
        info = archive.getinfo("logits.npy")
        info.file_size = size
    assert zlib.crc32(member) == info.CRC
    with pytest.raises(StorageError, match=r"`logits` needs 4000\.0 GB of memory"):
        read_predictions(file)


def test_a_wrong_checksum_of_logits_that_are_mapped(tmp_path: Path) -> None:
    logits, rows = np.eye(400, 4, dtype=np.float32), np.arange(400)
    file = write(tmp_path / "p.npz", id=rows, label=rows % 4, logits=logits)
    content = bytearray(file.read_bytes())
    content[content.index(logits.tobytes()) + logits.nbytes - 1] ^= 1
    file.write_bytes(content)
    with pytest.raises(DataError, match=r"p\.npz: the checksum of `logits` is wrong"):
        read_predictions(file)


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
