"""Predictions files: every form reads the same, and what is wrong with one is said in a line."""

from __future__ import annotations

import json
import re
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import parquet

from mptctl.errors import DataError, NonFiniteError, StorageError, UsageError
from mptctl.evaluation.predictions import (
    build_predictions,
    first_maximum,
    read_predictions,
    row_blocks,
    save_predictions,
)

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


@pytest.fixture(params=[".npz", ".csv", ".parquet"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tmp_path / f"predictions{request.param}"


def test_answers_read_the_same_from_every_form(path: Path) -> None:
    found = read_predictions(write(path, id=IDS, label=LABELS, pred=["cat", "cat", "dog"]))
    assert found.ids.tolist() == IDS
    assert found.labels.tolist() == LABELS
    assert found.preds.tolist() == ["cat", "cat", "dog"]
    assert (found.logits, found.classes, found.origin) == (None, None, "file")


def test_logits_read_the_same_from_every_form(path: Path) -> None:
    found = read_predictions(write(path, id=IDS, label=LABELS, logits=LOGITS, classes=CLASSES))
    assert found.preds.tolist() == ["cat", "cat", "dog"]
    assert found.classes == ("cat", "dog")
    assert found.logits is not None
    np.testing.assert_array_equal(found.logits, LOGITS)


def test_integers_are_classes_and_ids_too(path: Path) -> None:
    found = read_predictions(write(path, id=[7, 8, 9], label=[0, 1, 0], logits=LOGITS))
    assert found.ids.tolist() == ["7", "8", "9"]
    assert found.labels.tolist() == ["0", "1", "0"]
    assert found.preds.tolist() == ["0", "0", "1"]
    assert found.classes == ("0", "1")


def test_words_that_mean_nothing_to_pandas_are_classes(path: Path) -> None:
    found = read_predictions(
        write(path, id=["1", "2", "3"], label=["NA", "null", "nan"], pred=["nan", "NA", "null"])
    )
    assert found.labels.tolist() == ["NA", "null", "nan"]
    assert found.preds.tolist() == ["nan", "NA", "null"]


def test_leading_zeros_of_a_csv_are_kept(tmp_path: Path) -> None:
    file = tmp_path / "p.csv"
    file.write_text("id,label,pred\n0007,01,02\n")
    found = read_predictions(file)
    assert (found.ids[0], found.labels[0], found.preds[0]) == ("0007", "01", "02")


def test_stored_logits_are_mapped_and_compressed_ones_read(tmp_path: Path) -> None:
    plain, packed = tmp_path / "plain.npz", tmp_path / "packed.npz"
    write(plain, id=IDS, label=LABELS, logits=LOGITS, classes=CLASSES)
    np.savez_compressed(packed, id=IDS, label=LABELS, logits=LOGITS, classes=CLASSES)
    one, two = read_predictions(plain), read_predictions(packed)
    assert isinstance(one.logits, np.memmap)
    assert not isinstance(two.logits, np.memmap)
    np.testing.assert_array_equal(one.logits, LOGITS)
    assert two.logits is not None
    np.testing.assert_array_equal(two.logits, LOGITS)


def test_mapped_logits_in_columns_first_order(tmp_path: Path) -> None:
    file = tmp_path / "p.npz"
    np.savez(file, id=IDS, label=LABELS, logits=np.asfortranarray(LOGITS), classes=CLASSES)
    found = read_predictions(file).logits
    assert found is not None
    np.testing.assert_array_equal(found, LOGITS)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_the_first_maximum_wins_a_tie(dtype: type) -> None:
    logits = np.array([[1, 2, 2], [3, 3, 3], [0, -1, 0]], dtype=dtype)
    assert first_maximum(logits, "x").tolist() == [1, 0, 0]


def test_a_pred_beside_logits_may_break_a_tie_but_not_more() -> None:
    logits = np.array([[1.0, 1.0], [2.0, 0.0]])
    kept = build_predictions("x", np.arange(2), np.array([0, 0]), np.array([1, 0]), logits)
    assert kept.preds.tolist() == ["0", "0"]
    with pytest.raises(DataError, match=r"x: `pred` is not the largest of `logits` in 1 rows"):
        build_predictions("x", np.arange(2), np.array([0, 0]), np.array([1, 1]), logits)


def test_what_is_saved_reads_back(tmp_path: Path) -> None:
    made = build_predictions("x", np.array(IDS), np.array(LABELS), logits=LOGITS, classes=("cat", "dog"))
    save_predictions(made, tmp_path / "new" / "p.npz")
    found = read_predictions(tmp_path / "new" / "p.npz")
    assert found.ids.tolist() == IDS
    assert found.preds.tolist() == made.preds.tolist()
    assert found.classes == made.classes
    assert isinstance(found.logits, np.memmap)
    assert found.logits.dtype == np.float32
    assert [p.name for p in (tmp_path / "new").iterdir()] == ["p.npz"]


def test_a_place_that_cannot_be_written_is_a_storage_error(tmp_path: Path) -> None:
    made = build_predictions("x", np.array(IDS), np.array(LABELS), np.array(LABELS))
    (tmp_path / "file").write_text("")
    with pytest.raises(StorageError, match="cannot be written"):
        save_predictions(made, tmp_path / "file" / "p.npz")


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_logits_that_are_not_finite_are_counted(tmp_path: Path, bad: float) -> None:
    logits = LOGITS.copy()
    logits[[0, 2], 1] = bad
    file = write(tmp_path / "new.npz", id=IDS, label=LABELS, logits=logits, classes=CLASSES)
    with pytest.raises(NonFiniteError, match=r"new\.npz: 2 of 3 rows of logits are not finite") as caught:
        read_predictions(file)
    assert caught.value.exit_code == 6


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


class TestWrongFiles:
    def test_missing(self, tmp_path: Path) -> None:
        with pytest.raises(DataError, match="no such file"):
            read_predictions(tmp_path / "p.npz")

    def test_another_ending(self, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match=r"use one of \.npz, \.csv, \.parquet"):
            read_predictions(tmp_path / "p.json")

    @pytest.mark.parametrize("content", [b"", b"<html>not found</html>", b"PK\x03\x04 cut"])
    def test_damaged(self, path: Path, content: bytes) -> None:
        path.write_bytes(content)
        with pytest.raises(DataError, match=path.name) as caught:
            read_predictions(path)
        assert "\n" not in str(caught.value)

    def test_cut_to_half_its_length(self, tmp_path: Path) -> None:
        file = write(tmp_path / "p.npz", id=IDS, label=LABELS, logits=LOGITS, classes=CLASSES)
        file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
        with pytest.raises(DataError, match="cannot be read"):
            read_predictions(file)

    def test_a_pickle_inside_is_not_run(self, tmp_path: Path) -> None:
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

    def test_a_missing_column_is_named_with_what_is_there(self, path: Path) -> None:
        with pytest.raises(DataError, match="no `label`"):
            read_predictions(write(path, id=IDS, pred=LABELS))

    def test_neither_pred_nor_logits(self, path: Path) -> None:
        with pytest.raises(DataError, match="neither `pred` nor `logits`"):
            read_predictions(write(path, id=IDS, label=LABELS))

    def test_no_rows(self, tmp_path: Path) -> None:
        (tmp_path / "p.csv").write_text("id,label,pred\n")
        with pytest.raises(DataError, match="holds no sample"):
            read_predictions(tmp_path / "p.csv")

    def test_an_empty_cell(self, tmp_path: Path) -> None:
        (tmp_path / "p.csv").write_text("id,label,pred\na,cat,\nb,cat,dog\n")
        with pytest.raises(DataError, match="1 empty cells in `pred`"):
            read_predictions(tmp_path / "p.csv")

    def test_unequal_lengths(self, tmp_path: Path) -> None:
        file = write(tmp_path / "p.npz", id=IDS, label=LABELS[:2], pred=LABELS)
        with pytest.raises(DataError, match="2 rows of `label` for 3 of `id`"):
            read_predictions(file)

    def test_logits_of_unequal_lengths(self, tmp_path: Path) -> None:
        (tmp_path / "p.csv").write_text('id,label,logits\na,0,"[1.0]"\nb,0,"[1.0, 2.0]"\n')
        with pytest.raises(DataError, match="different lengths"):
            read_predictions(tmp_path / "p.csv")

    def test_logits_with_text_labels_need_classes(self, path: Path) -> None:
        with pytest.raises(DataError, match="need `classes`"):
            read_predictions(write(path, id=IDS, label=LABELS, logits=LOGITS))

    @pytest.mark.parametrize(
        ("classes", "message"),
        [(["cat"], "1 `classes` for 2 columns"), (["cat", "cat"], "names a class twice")],
    )
    def test_classes_that_do_not_fit(self, path: Path, classes: list[str], message: str) -> None:
        with pytest.raises(DataError, match=message):
            read_predictions(write(path, id=IDS, label=LABELS, logits=LOGITS, classes=classes))

    def test_answers_outside_the_classes(self, path: Path) -> None:
        with pytest.raises(DataError, match="not among its `classes`: emu"):
            read_predictions(write(path, id=IDS, label=LABELS, pred=["cat", "emu", "cat"], classes=CLASSES))

    def test_labels_that_are_no_whole_numbers(self, tmp_path: Path) -> None:
        file = write(tmp_path / "p.npz", id=IDS, label=[0.0, 1.5, 2.0], pred=[0, 1, 2])
        with pytest.raises(DataError, match="not whole"):
            read_predictions(file)

    def test_logits_that_are_no_matrix(self, tmp_path: Path) -> None:
        file = write(tmp_path / "p.npz", id=IDS, label=[0, 1, 0], logits=np.zeros(3))
        with pytest.raises(DataError, match=r"shape \(N, C\)"):
            read_predictions(file)

    def test_an_archive_without_arrays(self, tmp_path: Path) -> None:
        with zipfile.ZipFile(tmp_path / "p.npz", "w") as archive:
            archive.writestr("readme.txt", "hello")
        with pytest.raises(DataError, match="no `id` and no `label`"):
            read_predictions(tmp_path / "p.npz")


def table(path: Path, **columns: pa.Array) -> Path:
    """A Parquet file of columns of any Arrow type; `id` and `label` where they are not given."""
    n = len(next(iter(columns.values())))
    names = pa.array([f"s{i}" for i in range(n)])
    parquet.write_table(pa.table({"id": names, "label": pa.array(["cat"] * n), **columns}), path)
    return path


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


class TestArchivesThatOpenAndAreDamaged:
    def archive(self, tmp_path: Path) -> Path:
        n = 400
        return write(
            tmp_path / "p.npz",
            logits=np.eye(n, 4, dtype=np.float32),
            id=np.arange(n),
            label=np.arange(n) % 4,
            classes=np.arange(4),
        )

    @pytest.mark.parametrize("member", ["logits.npy", "label.npy", "id.npy", "classes.npy"])
    def test_a_wrong_checksum(self, tmp_path: Path, member: str) -> None:
        file = self.archive(tmp_path)
        with zipfile.ZipFile(file) as archive:
            info = archive.getinfo(member)
        content = bytearray(file.read_bytes())
        # The last byte of the member's data: its header and the archive's lists stay as they are.
        content[info.header_offset + 30 + len(member) + 20 + info.file_size - 1] ^= 1
        file.write_bytes(content)
        with pytest.raises(DataError, match=rf"p\.npz.*{member.removesuffix('.npy')}") as caught:
            read_predictions(file)
        assert caught.value.exit_code == 4

    @pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
    @pytest.mark.parametrize("rows", [399, 401])
    def test_a_header_of_another_size_than_its_member(
        self, tmp_path: Path, rows: int, compression: int
    ) -> None:
        source, file = self.archive(tmp_path), tmp_path / "q.npz"
        with zipfile.ZipFile(source) as old, zipfile.ZipFile(file, "w", compression) as new:
            for name in old.namelist():
                content = old.read(name)
                if name == "logits.npy":
                    content = content.replace(b"(400, 4)", f"({rows}, 4)".encode())
                new.writestr(name, content)
        with pytest.raises(DataError, match=r"`logits` is damaged: its header says \(\d+, 4\)"):
            read_predictions(file)

    def test_an_encrypted_member(self, tmp_path: Path) -> None:
        file = self.archive(tmp_path)
        content = bytearray(file.read_bytes())
        for signature, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
            content[content.index(signature) + offset] |= 1
        file.write_bytes(content)
        with pytest.raises(DataError, match="`logits` is encrypted"):
            read_predictions(file)

    @pytest.mark.parametrize("share", [0.1, 0.5, 0.9, 0.999])
    def test_cut(self, tmp_path: Path, share: float) -> None:
        file = self.archive(tmp_path)
        content = file.read_bytes()
        file.write_bytes(content[: int(len(content) * share)])
        with pytest.raises(DataError, match="cannot be read as npz"):
            read_predictions(file)

    def test_one_array_twice(self, tmp_path: Path) -> None:
        file = self.archive(tmp_path)
        with zipfile.ZipFile(file) as archive:
            label = archive.read("label.npy")
        with zipfile.ZipFile(file, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("label.npy", label)
        with pytest.raises(DataError, match="holds `label` twice"):
            read_predictions(file)

    def test_more_than_the_machines_memory_is_refused_before_it_is_read(self, tmp_path: Path) -> None:
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
        with pytest.raises(StorageError, match=r"`logits` needs 3725\.3 GiB of memory"):
            read_predictions(file)


class TestDamagedCsv:
    def test_a_repeated_header(self, tmp_path: Path) -> None:
        (tmp_path / "p.csv").write_text("id,label,pred,pred\na,0,0,1\n")
        with pytest.raises(DataError, match=r"p\.csv: `pred` heads 2 columns"):
            read_predictions(tmp_path / "p.csv")

    def test_repeated_columns_of_others_do_not_matter(self, tmp_path: Path) -> None:
        (tmp_path / "p.csv").write_text("id,label,pred,note,note\na,0,0,x,y\n")
        assert read_predictions(tmp_path / "p.csv").preds.tolist() == ["0"]

    @pytest.mark.parametrize(("row", "fields"), [("b,0,0,1", 4), ("b,0", 2), ("b", 1)])
    def test_rows_with_another_number_of_fields(self, tmp_path: Path, row: str, fields: int) -> None:
        (tmp_path / "p.csv").write_text(f"id,label,pred\na,0,0\n{row}\nc,0,1\n")
        with pytest.raises(DataError, match=rf"1 rows? .* 3 fields .*line 3 has {fields}"):
            read_predictions(tmp_path / "p.csv")

    def test_a_field_more_in_every_row(self, tmp_path: Path) -> None:
        (tmp_path / "p.csv").write_text("id,label,pred\n0,a,0,0\n1,b,0,0\n2,c,1,1\n3,d,1,1\n")
        with pytest.raises(DataError, match=r"4 rows .*line 2 has 4, line 3 has 4, line 4 has 4 and 1 more"):
            read_predictions(tmp_path / "p.csv")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"id,label,pred\na,caf\xe9,x\n", "not UTF-8"),
            (b"id,label,pred\na,\xed\xa0\x80,x\n", "not UTF-8"),
            (b"id,label,pred\na,c\x00t,ct\n", "line 2 .*NUL"),
            (b"id,label,pred\na,0\x00,0\n", "line 2 .*NUL"),
            ("id,label,pred\na,0,0\n".encode("utf-16"), "not UTF-8"),
            (b'id,label,pred\na,0,"0\n', "cannot be read"),
            (b'id,label,pred\na,0,"0"1\n', "cannot be read"),
        ],
    )
    def test_text_that_is_none(self, tmp_path: Path, content: bytes, message: str) -> None:
        (tmp_path / "p.csv").write_bytes(content)
        with pytest.raises(DataError, match=message):
            read_predictions(tmp_path / "p.csv")

    @pytest.mark.parametrize(
        "content",
        [
            b"\xef\xbb\xbfid,label,pred\na,0,1\n",
            b"id,label,pred\r\na,0,1\r\n",
            b"id,label,pred\na,0,1",
            b"id,label,pred\na,0,1\n\n\n",
            b"id,label,pred\n\na,0,1\n",
            b'"id","label","pred"\n"a","0","1"\n',
            b"pred,more,id,label\n1,,a,0\n",
        ],
    )
    def test_sound_files_of_all_writers(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "p.csv").write_bytes(content)
        found = read_predictions(tmp_path / "p.csv")
        assert (found.ids.tolist(), found.labels.tolist(), found.preds.tolist()) == (["a"], ["0"], ["1"])

    def test_fields_of_many_thousand_characters(self, tmp_path: Path) -> None:
        logits = np.zeros((2, 40_000))
        logits[:, 7] = 1.25
        file = write(tmp_path / "p.csv", id=["a", "b"], label=[7, 0], logits=logits)
        assert read_predictions(file).preds.tolist() == ["7", "7"]

    @pytest.mark.parametrize(
        "cell", ["[1, true]", '["1", "2"]', "[1, null]", "[[1], [2]]", "{}", "1", "[1 2]", "", '"12"', "[]"]
    )
    def test_logits_that_are_no_list_of_numbers(self, tmp_path: Path, cell: str) -> None:
        pd.DataFrame({"id": ["a", "b"], "label": [0, 1], "logits": ["[0.0, 1.0]", cell]}).to_csv(
            tmp_path / "p.csv", index=False
        )
        with pytest.raises(DataError, match=r"`logits`.*line 3|line 3.*`logits`|different lengths"):
            read_predictions(tmp_path / "p.csv")


class TestDamagedParquet:
    def test_a_repeated_column(self, tmp_path: Path) -> None:
        arrays = [pa.array(["a"]), pa.array(["0"]), pa.array(["0"]), pa.array(["1"])]
        names = ["id", "label", "pred", "pred"]
        parquet.write_table(pa.Table.from_arrays(arrays, names=names), tmp_path / "p.parquet")
        with pytest.raises(DataError, match=r"p\.parquet: `pred` heads 2 columns"):
            read_predictions(tmp_path / "p.parquet")

    @pytest.mark.parametrize(
        "kind", [pa.list_(pa.float32()), pa.list_(pa.float32(), 2), pa.large_list(pa.float64())]
    )
    def test_null_rows_of_logits(self, tmp_path: Path, kind: pa.DataType) -> None:
        logits = pa.array([[0.0, 1.0], None, [1.0, 0.0], [0.0, 1.0]], type=kind)
        classes = pa.array([["cat", "dog"]] * 4)
        with pytest.raises(DataError, match=r"1 empty cells in `logits` of 4 rows \(row 2\)"):
            read_predictions(table(tmp_path / "p.parquet", logits=logits, classes=classes))

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
        with pytest.raises(DataError, match=r"4 .*`classes` differ.*line 3, line 4, line 5 and 1 more"):
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
            ([1, 2, 3, 3], r"count from 1 .*\(3 of 4 answers are right one class further, 0 as they stand\)"),
            ([1, 2, 2, 1], r"count from 1 .*\(3 of 4 answers"),
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
