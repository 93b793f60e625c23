"""Places of pictures: folders, tables and tar shards; what is wrong with a row is named."""

from __future__ import annotations

import csv
import json
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from mptctl.data.listing.listing import BadPictures
from mptctl.data.listing.shards import list_shards
from mptctl.data.manifest import BAD
from mptctl.data.places import find_place
from mptctl.data.split import Split, make_split
from mptctl.errors import DataError, UsageError
from mptctl.names import OnBad
from tests.common import CommandLine, make_folder
from tests.data.test_pack_tars import write_tar


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "photos", classes=3, train=8, val=3)


def split_of(place: Path | str, run_root: Path, *, on_bad: OnBad = "fail", **asked: object) -> Split:
    found = find_place(str(place), None)
    wanted = {"val_fraction": 0.25} | asked
    return make_split(
        found.source,
        run_root=run_root,
        data_root=found.root,
        place=found.table_or_shards,
        on_bad=on_bad,
        **wanted,
    )  # type: ignore[arg-type]


def write_table(path: Path, rows: Sequence[Mapping[str, object]]) -> Path:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, list(rows[0]))
        table.writeheader()
        table.writerows(rows)
    return path


def rows_of(folder: Path) -> list[dict[str, object]]:
    """A row for each picture of a folder, in no order."""
    paths = [path.relative_to(folder) for path in sorted(folder.glob("*/*/*.jpg"))]
    rows = [{"path": str(p), "label": p.parts[1], "split": p.parts[0], "owner": p.stem[-1]} for p in paths]
    random.Random(4).shuffle(rows)
    return rows  # type: ignore[return-value]


def write_shards(
    folder: Path, samples: Sequence[tuple[str, Mapping[str, bytes]]], name: str = "0.tar"
) -> Path:
    """A shard of samples: a key, and contents by suffix."""
    folder.mkdir(exist_ok=True)
    write_tar(
        folder / name,
        [(f"{key}{suffix}", content) for key, parts in samples for suffix, content in parts.items()],
    )
    return folder


def samples_of(folder: Path, part: str) -> list[tuple[str, dict[str, bytes]]]:
    return [
        (
            f"{path.parent.name}-{path.stem}",
            {".jpg": path.read_bytes(), ".cls": path.parent.name[-1:].encode()},
        )
        for path in sorted(folder.glob(f"{part}/*/*.jpg"))
    ]


def test_a_table_in_parquet_with_other_names_and_ids(folder: Path, tmp_path: Path) -> None:
    import pandas as pd

    rows = pd.DataFrame(rows_of(folder)).rename(columns={"label": "y", "path": "file"})
    rows["id"] = [f"n{i}" for i in range(len(rows))]
    rows.to_parquet(folder / "t.parquet")
    split = split_of(folder / "t.parquet", tmp_path / "runs", columns={"label": "y", "path": "file"})
    by_id = dict(zip(rows["id"], rows["file"], strict=True))
    for row in split.indices("test").tolist():
        assert split.manifest.relative_path(row) == by_id[split.ids(np.array([row]))[0]]
    with pytest.raises(UsageError, match="has no such column"):
        split_of(folder / "t.parquet", tmp_path / "other", columns={"label": "z"})


def test_what_has_no_test_part_holds_one_out(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="--test-fraction"):
        split_of(folder / "train", tmp_path / "a")
    split = split_of(folder / "train", tmp_path / "a", test_fraction=0.25)
    assert len(split.indices("test")) == 6
    rows = [{key: row[key] for key in ("path", "label")} for row in rows_of(folder)]
    with pytest.raises(DataError, match=r"t\.csv: has no test part; .*--test-fraction"):
        split_of(write_table(folder / "t.csv", rows), tmp_path / "b")
    assert not (tmp_path / "b").exists()
    with pytest.raises(UsageError, match="has a test part"):
        split_of(folder, tmp_path / "c", test_fraction=0.25)


def test_a_table_of_test_pictures_alone_is_not_advised_of_a_fraction(folder: Path, tmp_path: Path) -> None:
    rows = [row | {"split": "test"} for row in rows_of(folder)]
    with pytest.raises(DataError, match=r"of 3 classes, class0 first .*; add training pictures$"):
        split_of(write_table(folder / "t.csv", rows), tmp_path / "a")


@pytest.mark.parametrize("name", ["validation", "valid", "dev", "eval"])
def test_other_names_of_the_validation_part(name: str, folder: Path, tmp_path: Path) -> None:
    (folder / "val").rename(folder / name)
    assert len(split_of(folder, tmp_path / "runs").indices("test")) == 9


def test_every_bad_row_of_a_table_is_named_with_its_line(folder: Path, tmp_path: Path) -> None:
    rows = rows_of(folder)
    (folder / "train/class0/bad.jpg").write_bytes(b"no picture")
    changes = [
        ("path", "train/class0/gone.jpg", "No such file"),
        ("label", " ", "label is empty"),
        ("label", str(rows[3]["label"]).upper(), "differs by case"),
        ("path", rows[0]["path"], "is there already"),
        ("split", "trian", "part 'trian'"),
        ("path", "train/class0/bad.jpg", "no readable header"),
        ("path", "../outside.jpg", "csv: line 9: ../outside.jpg: lies outside"),
        ("path", "https://x.y/1.jpg", "csv: line 10: https://x.y/1.jpg: is an address"),
    ]
    for row, (column, cell, _) in zip(rows[1:], changes, strict=False):
        row[column] = cell
    place = write_table(folder / "t.csv", rows)
    with pytest.raises(BadPictures) as bad:
        split_of(place, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
    for line, (*_, word) in enumerate(changes, 3):
        assert any(f"t.csv: line {line}:" in each and word in each for each in bad.value.problems), word
    assert len(split_of(place, tmp_path / "runs", on_bad="quarantine").file.quarantined) == 8


def test_a_path_that_leaves_the_folder_and_comes_back_lies_in_it(folder: Path, tmp_path: Path) -> None:
    rows = [row | {"path": f"../photos/{row['path']}"} for row in rows_of(folder)]
    split = split_of(write_table(folder / "t.csv", rows), tmp_path / "runs")
    assert set(split.manifest.paths.to_pylist()) == {row["path"] for row in rows_of(folder)}


@pytest.mark.parametrize(
    ("content", "message"), [("", "t.csv: is empty"), ("path;label\na.jpg;cat\n", "semicolons; write commas")]
)
def test_a_table_that_is_empty_or_not_separated_by_commas(content: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(DataError, match=message):
        split_of(tmp_path / "t.csv", tmp_path / "runs")


def test_every_bad_sample_of_shards_is_named(folder: Path, tmp_path: Path) -> None:
    train, val = samples_of(folder, "train"), samples_of(folder, "val")
    del train[0][1][".cls"]
    train[1][1][".jpg"] = b"no picture"
    train[2] = (train[2][0], {".cls": b"0"})
    train[3] = (train[3][0], train[3][1] | {".mask.png": b"x"})
    shards = write_shards(tmp_path / "s", train, "train-0.tar")
    cut = write_shards(shards, val, "val-0.tar") / "val-0.tar"
    cut.write_bytes(cut.read_bytes()[: cut.stat().st_size // 2 // 512 * 512])
    with pytest.raises(BadPictures) as bad:
        split_of(f"{shards}/*.tar", tmp_path / "runs")
    assert not (tmp_path / "runs").exists()
    words = ("no label beside it", "no readable header", "no picture", "has several pictures", "cut off")
    names = [*(key for key, _ in train[:4]), cut.name]
    for name, word in zip(names, words, strict=True):
        assert any("offset" in each and name in each and word in each for each in bad.value.problems), word
    assert len(split_of(f"{shards}/*.tar", tmp_path / "runs", on_bad="quarantine").file.quarantined) == 5


def test_a_sample_a_second_time_in_a_shard_is_a_bad_one(folder: Path, tmp_path: Path) -> None:
    samples = samples_of(folder, "train")
    (key, first), (_, second) = samples[0], samples[-1]
    shards = f"{write_shards(tmp_path / 's', [*samples, (key, second)])}/0.tar"
    with pytest.raises(BadPictures, match=rf"1 of 25 .*{key}\.jpg: id {key}\.jpg is there already"):
        split_of(shards, tmp_path / "runs", test_fraction=0.25)
    split = split_of(shards, tmp_path / "runs", test_fraction=0.25, on_bad="quarantine")
    kept = [row for row in range(len(split.manifest)) if split.manifest.parts[row] != BAD]
    assert len(kept) == 24
    assert first[".jpg"] in [split.manifest.read(row) for row in kept]


def test_labels_of_shards_stand_in_cls_or_json_or_where_it_is_said(folder: Path, tmp_path: Path) -> None:
    samples, captions = [], []
    for number, (key, parts) in enumerate(samples_of(folder, "train")):
        said = json.dumps({"label": "abc"[int(parts[".cls"])], "w": 2}).encode()
        samples.append((key, {".jpg": parts[".jpg"], ".json": said}))
        captions.append((key, {".jpg": b"x", ".txt": f"a photo of {number}".encode()}))
    shards = write_shards(tmp_path / "s", samples)
    found = list_shards(f"{shards}/0.tar", shards, None)
    assert found.class_names == ("a", "b", "c")
    assert found.further().to_pydict() == {"w": [2] * 24}  # type: ignore[union-attr]
    shards = write_shards(tmp_path / "t", captions)
    assert len(list_shards(str(shards), shards, None).problems()) == 24
    with pytest.raises(DataError, match="nearly all different"):
        split_of(f"{shards}/0.tar", tmp_path / "runs", label_key=".txt")


LABEL_CELLS = [(11.0, None), (math.nan, "is empty"), (True, "label True is neither"), (1.5, "label 1.5 is n")]


@pytest.mark.parametrize(("cell", "problem"), LABEL_CELLS)
@pytest.mark.parametrize("kind", ["table", "shards"])
def test_floats_are_labels_as_in_predictions(
    kind: str, cell: float, problem: str | None, folder: Path, tmp_path: Path
) -> None:
    place = tmp_path / "0.tar"
    if kind == "table":
        rows = rows_of(folder)
        # A column of a Parquet table has one type.
        labels = [9.0 + int(str(row["label"])[-1]) for row in rows]
        cells = [cell if label == 11 else label for label in labels] if cell is not True else [True] * 33
        place = folder / "all.parquet"
        columns = {"path": [row["path"] for row in rows], "label": cells}
        parquet.write_table(pa.table(columns), place)
    else:
        samples = samples_of(folder, "train")
        for _, parts in samples:
            label = 9.0 + int(parts.pop(".cls"))
            parts[".json"] = json.dumps({"label": cell if label == 11 else label}).encode()
        write_shards(tmp_path, samples)
    if problem is None:
        split = split_of(place, tmp_path / "runs", test_fraction=0.25)
        assert split.manifest.class_names == ("9", "10", "11")
        return
    with pytest.raises(BadPictures, match=problem):
        split_of(place, tmp_path / "runs", test_fraction=0.25)


def test_floats_in_text_are_sorted_as_numbers(folder: Path, tmp_path: Path) -> None:
    rows = [row | {"label": f"{8 + int(str(row['label'])[-1])}.0"} for row in rows_of(folder)]
    split = split_of(write_table(folder / "all.csv", rows), tmp_path / "runs")
    assert split.manifest.class_names == ("8.0", "9.0", "10.0")


def test_an_archive_beside_class_folders_is_no_shard(folder: Path) -> None:
    (folder / "train.tar").touch()
    assert find_place(str(folder), None).source == "imagefolder"


@pytest.mark.parametrize("pictures", [[b"x"], [{"bytes": None, "path": "a.jpg"}]])
def test_pictures_inside_a_table_are_known_by_the_kind_of_their_column(
    pictures: list[object], tmp_path: Path
) -> None:
    parquet.write_table(pa.table({"img": pictures, "label": ["a"]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="holds pictures inside Parquet files; pack them first"):
        find_place(str(tmp_path / "a.parquet"), None)
    parquet.write_table(pa.table({"image": ["a.jpg"], "label": ["a"]}), tmp_path / "a.parquet")
    assert find_place(str(tmp_path / "a.parquet"), None).source == "table"


def test_a_number_that_is_no_class_is_the_only_bad_row(folder: Path, tmp_path: Path) -> None:
    rows = [{**row, "label": str(row["label"])[-1]} for row in rows_of(folder)]
    rows[4]["label"] = "-1"
    (folder / "classes.txt").write_text("a\nb\nc\n")
    with pytest.raises(BadPictures, match=r"line 6: .*label -1 is none of the 3 classes") as bad:
        split_of(write_table(folder / "t.csv", rows), tmp_path / "runs")
    assert len(bad.value.problems) == 1


@pytest.mark.parametrize("has_val", [False, True])
def test_a_split_that_is_kept_needs_no_table(folder: Path, tmp_path: Path, has_val: bool) -> None:
    rows = rows_of(folder)
    if has_val:
        rows += [{**row, "id": f"copy {i}", "split": "test"} for i, row in enumerate(rows[:5])]
    rows = [{"id": row["path"], **row} for row in rows]
    place = write_table(folder / "t.csv", rows)
    made = split_of(place, tmp_path / "runs", val_fraction=None)
    place.write_text("no table any more")
    assert split_of(place, tmp_path / "runs", val_fraction=None).fingerprint == made.fingerprint
    with pytest.raises(UsageError, match="seed: 0 -> 1"):
        split_of(place, tmp_path / "runs", val_fraction=None, seed=1)
    assert bool(made.file.request.val_fraction) != has_val
    with pytest.raises(UsageError, match=r"val_fraction|has a validation part"):
        split_of(place, tmp_path / "runs", val_fraction=0.25)


def test_a_table_whose_root_is_wrong_names_three_pictures_and_the_flag(
    folder: Path, tmp_path: Path, mptctl: CommandLine
) -> None:
    place = write_table(tmp_path / "t.csv", rows_of(folder))
    for on_bad in ("fail", "quarantine"):
        done = mptctl("split", place, "--run-root", tmp_path / "runs", "--on-bad", on_bad)
        assert done.returncode == 4, done.stderr
        assert "33 of 33 pictures are not there" in done.stderr
        assert "--data-root" in done.stderr
        assert done.stderr.count(".jpg") == 3
    assert mptctl("split", place, "--run-root", tmp_path / "runs", "--data-root", folder).returncode == 0


def test_shards_with_an_empty_index_and_files_of_macos(folder: Path, tmp_path: Path) -> None:
    samples = samples_of(folder, "train")
    with_mac = [
        each for key, parts in samples for each in ((key, parts), (f"._{key}", {".jpg": b"attributes"}))
    ]
    shards = write_shards(tmp_path / "s", with_mac)
    (shards / "0.idx").touch()
    split = split_of(shards / "0.tar", tmp_path / "runs", test_fraction=0.25)
    assert len(split.manifest) == len(samples)
