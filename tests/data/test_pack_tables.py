"""Tables as `pack` reads them, with pictures inside or paths to them: ids, labels, parts, further columns, bad rows."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from mptctl.data.listing.listing import BadPictures
from mptctl.data.packing.pack import pack_pictures
from mptctl.data.packing.records import PackReport, PackRequest
from mptctl.errors import DataError, UsageError
from mptctl.names import PackForm
from tests.data.test_pack import whole
from tests.data.test_pack_shards import members_of

NAMES = ["class0", "class1", "class2", "class3"]
METADATA = {
    b"huggingface": json.dumps(
        {
            "info": {
                "features": {"image": {"_type": "Image"}, "label": {"_type": "ClassLabel", "names": NAMES}}
            }
        }
    ).encode()
}


def rows_of(folder: Path, part: str) -> dict[str, list[Any]]:
    """A table's columns: the pictures of one part of an image folder, in no order, and a weight."""
    paths = sorted(folder.glob(f"{part}/*/*.jpg"), key=lambda path: path.name[::-1])
    return {
        "image": [{"bytes": path.read_bytes(), "path": path.name} for path in paths],
        "label": [NAMES.index(path.parent.name) for path in paths],
        "weight": [i / 2 for i in range(len(paths))],
    }


def pack(
    place: Path | str, out: Path, to: PackForm = "folder", columns: Mapping[str, str] | None = None
) -> PackReport:
    request = PackRequest(source=str(place), kind="", to=to, short_side=None, columns=dict(columns or {}))
    return pack_pictures(request, out)


def write_parquet(path: Path, columns: Mapping[str, Sequence[Any]], group: int = 9) -> None:
    pq.write_table(pa.table(dict(columns)).replace_schema_metadata(METADATA), path, row_group_size=group)


def write_arrow(folder: Path, columns: Mapping[str, Sequence[Any]], parts: int = 2) -> None:
    """A folder as `datasets` saves it; tests/integrations reads what that wrote itself."""
    folder.mkdir(parents=True)
    table = pa.table(dict(columns)).replace_schema_metadata(METADATA)
    size = -(-len(table) // parts)
    names = []
    for i in range(parts):
        names.append(f"data-{i:05d}-of-{parts:05d}.arrow")
        piece = table.slice(i * size, size)
        with (
            pa.OSFile(str(folder / names[-1]), "wb") as file,
            pa.ipc.new_stream(file, table.schema) as stream,
        ):
            stream.write_table(piece, max_chunksize=5)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": name} for name in names]}))
    (folder / "dataset_info.json").write_text(json.dumps(json.loads(METADATA[b"huggingface"])["info"]))


@pytest.fixture(params=["parquet", "arrow"])
def place(request: pytest.FixtureRequest, folder: Path, tmp_path: Path) -> Path:
    """The pictures of `folder` in tables, one for each part."""
    data = tmp_path / "data"
    data.mkdir()
    if request.param == "arrow":
        for part, name in (("train", "train"), ("val", "validation")):
            write_arrow(data / name, rows_of(folder, part))
        (data / "dataset_dict.json").write_text('{"splits": ["train", "validation"]}')
    else:
        write_parquet(data / "train-00000-of-00001.parquet", rows_of(folder, "train"))
        write_parquet(data / "validation-00000-of-00001.parquet", rows_of(folder, "val"))
    return data


def table_files(place: Path) -> list[Path]:
    return sorted(path for path in place.rglob("*") if path.suffix in (".arrow", ".parquet"))


def test_a_table_becomes_the_folder_that_it_was_made_of(place: Path, folder: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    report = pack(place, out)
    assert (report.pictures, report.classes, report.found) == (56, 4, 0)
    pictures = {name: content for name, content in whole(out).items() if name.endswith(".jpg")}
    assert pictures == whole(folder)
    weights = rows_of(folder, "train")
    with open(out / "pictures.csv") as file:
        table = {row["path"]: row for row in csv.DictReader(file)}
    for picture, label, weight in zip(*weights.values(), strict=True):
        row = table[f"train/{NAMES[label]}/{picture['path']}"]
        assert (row["label"], row["split"], float(row["weight"])) == (NAMES[label], "train", weight)
    first = whole(out)
    assert pack(place, out).found == 56
    assert whole(out) == first


def test_a_table_becomes_shards(place: Path, folder: Path, tmp_path: Path) -> None:
    report = pack(place, tmp_path / "out", "shards")
    members = members_of(tmp_path / "out")
    assert (report.pictures, report.shards) == (56, 2)
    for name, content in whole(folder).items():
        assert members[name] == content
        assert members[name.replace(".jpg", ".cls")] == str(NAMES.index(name.split("/")[1])).encode()
        assert list(json.loads(members[name.replace(".jpg", ".json")])) == ["weight"]


def test_pictures_without_names_are_numbered_within_their_part(folder: Path, tmp_path: Path) -> None:
    columns = rows_of(folder, "train")
    columns["image"] = [picture["bytes"] for picture in columns["image"]]
    columns["split"] = ["train", "test"] * (len(columns["label"]) // 2)
    write_parquet(tmp_path / "a.parquet", columns)
    pack(tmp_path / "a.parquet", tmp_path / "out")
    for i, (content, label) in enumerate(zip(columns["image"], columns["label"], strict=True)):
        part = ("train", "test")[i % 2]
        assert (tmp_path / f"out/{part}/{NAMES[label]}/{i // 2:08d}.jpg").read_bytes() == content
    report = pack(tmp_path / "a.parquet", tmp_path / "again", columns={"id": "weight"})
    assert report.pictures == len(columns["label"])
    assert (tmp_path / f"again/train/{NAMES[columns['label'][2]]}/1.0.jpg").exists()


def test_columns_are_found_by_name_by_kind_or_as_they_are_named(folder: Path, tmp_path: Path) -> None:
    rows = rows_of(folder, "train")
    columns = {"img": rows["image"], "fine": [f"c{i}" for i in rows["label"]], "label": rows["label"]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    for named, message in (
        ({}, "no column image; it has img, fine, label; name it with --column"),
        ({"image": "imag"}, r"image=imag.*did you mean img"),
        ({"image": "fine"}, "column fine is string, not the bytes of pictures"),
    ):
        with pytest.raises((DataError, UsageError), match=message):
            pack(tmp_path / "a.parquet", tmp_path / "out", columns=named)
    assert not (tmp_path / "out").exists()
    pack(tmp_path / "a.parquet", tmp_path / "out", columns={"image": "img", "label": "fine"})
    assert {path.parent.name for path in (tmp_path / "out").rglob("*.jpg")} == {"c0", "c1", "c2", "c3"}
    assert "source_label" in (tmp_path / "out" / "pictures.csv").read_text().splitlines()[0]


def test_a_picture_that_is_named_and_not_inside_is_read_from_its_file(folder: Path, tmp_path: Path) -> None:
    paths = sorted(folder.glob("train/*/*.jpg"))
    images = [{"bytes": None, "path": str(path)} for path in paths]
    images[3]["path"] = "nowhere.jpg"
    labels = [path.parent.name for path in paths]
    pq.write_table(pa.table({"image": images, "label": labels}), tmp_path / "a.parquet")
    with pytest.raises(BadPictures, match=r"row 4: holds no bytes, and nowhere.jpg cannot be read"):
        pack(tmp_path / "a.parquet", tmp_path / "out")
    assert len(list((tmp_path / "out").glob("*/*.jpg"))) == len(paths) - 1


def test_rows_that_cannot_be_used_are_named_and_nothing_is_written(folder: Path, tmp_path: Path) -> None:
    columns = rows_of(folder, "train")
    columns["label"][5:7] = None, -1
    columns["id"] = ["a", "a", *map(str, range(38))]
    write_parquet(tmp_path / "a.parquet", columns)
    with pytest.raises(BadPictures) as caught:
        pack(tmp_path / "a.parquet", tmp_path / "out")
    where = f"{tmp_path}/a.parquet: row"
    assert caught.value.problems == [
        f"{where} 2: id a is there already: {where} 1",
        f"{where} 6: its label is empty",
        f"{where} 7: label -1 is none of the 4 classes that are named",
    ]
    assert not (tmp_path / "out").exists()


def test_pictures_that_cannot_be_used_are_named_by_row(folder: Path, tmp_path: Path) -> None:
    columns = rows_of(folder, "train")
    columns["image"][7]["bytes"] = columns["image"][7]["bytes"][:200]
    columns["image"][30] = None
    columns["image"][31]["bytes"] = b""
    write_parquet(tmp_path / "train.parquet", columns)
    with pytest.raises(BadPictures) as caught:
        pack(tmp_path / "train.parquet", tmp_path / "out", "shards")
    where = [f"{tmp_path}/train.parquet: row {row}" for row in (8, 31, 32)]
    assert [line[: len(each)] for line, each in zip(caught.value.problems, where, strict=True)] == where
    assert not members_of(tmp_path / "out")  # the shard waits for them


def test_damaged_files_are_named(place: Path, tmp_path: Path) -> None:
    path = table_files(place)[0]
    for content in (path.read_bytes()[:-2000], b""):
        path.write_bytes(content)
        with pytest.raises(DataError, match=path.name):
            pack(place, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_tables_that_are_not_one_are_refused(folder: Path, tmp_path: Path) -> None:
    write_parquet(tmp_path / "train-0.parquet", rows_of(folder, "train"))
    write_parquet(tmp_path / "more.parquet", rows_of(folder, "val"))
    with pytest.raises(DataError, match=r"others do not \(more\.parquet\)"):
        pack(tmp_path / "*.parquet", tmp_path / "out")
    (tmp_path / "more.parquet").unlink()
    pq.write_table(pa.table(rows_of(folder, "val")), tmp_path / "val-0.parquet")
    with pytest.raises(DataError, match=r"val-0\.parquet: other columns or classes than .*train-0\.parquet"):
        pack(tmp_path / "*.parquet", tmp_path / "out")


def test_another_table_of_the_same_name_is_another_source(place: Path, tmp_path: Path) -> None:
    pack(place, tmp_path / "out")
    table_files(place)[0].touch()
    with pytest.raises(UsageError, match="holds another copy"):
        pack(place, tmp_path / "out")


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
    write_table(tmp_path / "a.csv", folder)
    pq.write_table(pyarrow.csv.read_csv(tmp_path / "a.csv"), tmp_path / "a.parquet")
    for name in ("a.csv", "a.parquet"):
        pack(tmp_path / name, tmp_path / f"out-{name}", columns={"label": "kind"})
    one, other = (whole(tmp_path / f"out-{name}") for name in ("a.csv", "a.parquet"))
    assert {name for name in one if one[name] != other.get(name)} == {"pack.json"}
