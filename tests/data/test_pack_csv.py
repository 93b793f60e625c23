"""A table of paths as a source of `pack`: labels, parts, ids and further columns, and rows that are bad."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from mptctl.data.listing.listing import BadPictures
from mptctl.errors import DataError
from tests.data.test_pack import whole
from tests.data.test_pack_tables import pack


def write_table(table_path: Path, folder: Path, **changes: str) -> None:
    """A row for each picture of a folder; ``changes`` are cells of the first one."""
    with table_path.open("w", newline="") as file:
        table = csv.DictWriter(file, ["path", "kind", "split", "camera"])
        table.writeheader()
        for i, picture in enumerate(sorted(folder.rglob("*.jpg"))):
            part, kind, _ = picture.relative_to(folder).parts
            row = {"path": str(picture), "kind": kind, "split": part, "camera": f"c{i % 3}"}
            table.writerow(row | (changes if i == 0 else {}))


def test_a_table_becomes_the_folder_that_it_names(folder: Path, tmp_path: Path) -> None:
    write_table(tmp_path / "a.csv", folder)
    report = pack(tmp_path / "a.csv", tmp_path / "out", columns={"label": "kind"})
    assert (report.pictures, report.classes) == (56, 4)
    with open(tmp_path / "out" / "pictures.csv") as file:
        rows = {row["id"]: row for row in csv.DictReader(file)}
    for name, content in whole(folder).items():
        row = rows[str(folder / name)]
        assert (tmp_path / "out" / row["path"]).read_bytes() == content
        assert [row["split"], row["label"]] == name.split("/")[:2]
        assert row["camera"] in ("c0", "c1", "c2")
    assert pack(tmp_path / "a.csv", tmp_path / "out", columns={"label": "kind"}).found == 56


def test_a_table_in_parquet_becomes_what_the_same_in_csv_does(folder: Path, tmp_path: Path) -> None:
    from pyarrow import csv as pyarrow_csv
    from pyarrow import parquet

    write_table(tmp_path / "a.csv", folder)
    parquet.write_table(pyarrow_csv.read_csv(tmp_path / "a.csv"), tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        pack(tmp_path / name, tmp_path / f"out-{name}", columns={"label": "kind"})
    one, other = (whole(tmp_path / f"out-{name}") for name in ("a.csv", "a.parquet"))
    assert {name for name in one if one[name] != other[name]} == {"pack.json"}
    assert one.keys() == other.keys()


def test_bad_rows_are_named_and_nothing_is_written(folder: Path, tmp_path: Path) -> None:
    write_table(tmp_path / "a.csv", folder, split="rest")
    with pytest.raises(BadPictures, match=r"line 2: .*part 'rest' is none of train, val"):
        pack(tmp_path / "a.csv", tmp_path / "out", columns={"label": "kind"})
    with pytest.raises(DataError, match="no column called label"):
        pack(tmp_path / "a.csv", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    write_table(tmp_path / "a.csv", folder, path="nowhere.jpg")
    with pytest.raises(BadPictures, match=r"line 2: nowhere\.jpg: cannot be read"):
        pack(tmp_path / "a.csv", tmp_path / "out", columns={"label": "kind"})
