"""Rows 77 to 79: groups and pictures that training and test share, and shards that are damaged."""

from __future__ import annotations

import shutil
import tarfile
from pathlib import Path

import pytest

from mptctl.data.packing.pack import pack_pictures
from mptctl.data.packing.records import PackRequest
from mptctl.data.split import load_split
from tests.common import CommandLine


def grouped_table(folder: Path, path: Path, torn: bool) -> None:
    """A table of a folder's pictures with two pictures a patient, of which one is in two parts where asked."""
    rows = ["path,label,split,group\n"]
    for number, each in enumerate(sorted(folder.glob("*/*/*.jpg"))):
        part = each.parts[-3]
        patient = "shared" if torn and number % 20 == 0 else f"{part}-{number // 2}"
        rows.append(f"{each.relative_to(folder)},{each.parent.name},{part},{patient}\n")
    path.write_text("".join(rows), encoding="utf-8")


def test_row_77_a_group_in_training_and_test(folder: Path, tmp_path: Path, mptctl: CommandLine) -> None:
    table, words = tmp_path / "t.csv", ("--data-root", folder, "--val-fraction", "0.2", "--group", "group")
    grouped_table(folder, table, torn=True)
    refused = mptctl("split", table, *words, "--run-root", tmp_path / "runs")
    assert (refused.returncode, (tmp_path / "runs").exists()) == (4, False)
    assert "1 groups lie in several parts of the source (shared in train and test)" in refused.stderr
    kept = mptctl("split", table, *words, "--run-root", tmp_path / "runs", "--on-bad", "quarantine")
    assert kept.returncode == 0, kept.stderr
    assert kept.stderr.count("group shared is in a later part too") == 2
    grouped_table(folder, table, torn=False)
    done = mptctl("split", table, *words, "--run-root", tmp_path / "runs", "--overwrite")
    assert done.returncode == 0, done.stderr
    split = load_split(tmp_path / "runs")
    ids = [each.relative_to(folder).as_posix() for each in sorted(folder.glob("*/*/*.jpg"))]
    train, val = (
        {ids.index(name) // 2 for name in split.ids(split.indices(part))} for part in ("train", "val")
    )
    assert train and val and not train & val


def test_row_78_a_picture_in_training_and_test(own_folder: Path, tmp_path: Path, mptctl: CommandLine) -> None:
    shutil.copy(own_folder / "val" / "class1" / "000.jpg", own_folder / "train" / "class1" / "twin.jpg")
    words = ("split", own_folder, "--val-fraction", "0.2")
    done = mptctl(*words, "--run-root", tmp_path / "kept")
    assert done.returncode == 0, done.stderr
    assert (
        "identical: train/class1/twin.jpg (train, class1), val/class1/000.jpg (test, class1)" in done.stderr
    )
    said = " ".join(done.stdout.split())
    assert "2 pictures are identical to others: 1 set across parts" in said
    assert "keeps training copies out, and validation copies of test pictures" in said
    done = mptctl(*words, "--run-root", tmp_path / "out", "--on-duplicates", "quarantine")
    assert done.returncode == 0, done.stderr
    split = load_split(tmp_path / "out")
    for part in ("train", "val"):
        assert "train/class1/twin.jpg" not in split.ids(split.indices(part)).tolist()  # type: ignore[arg-type]
    assert "val/class1/000.jpg" in split.ids(split.indices("test")).tolist()


@pytest.mark.parametrize("damage", ["cut in a picture", "cut before a header", "a header of zeros and ones"])
def test_row_79_a_damaged_shard(folder: Path, tmp_path: Path, mptctl: CommandLine, damage: str) -> None:
    request = PackRequest(source=str(folder), kind="", to="shards", short_side=None)
    pack_pictures(request, tmp_path / "shards")
    shard = tmp_path / "shards" / "train-000000.tar"
    with tarfile.open(shard) as tar:
        picture = tar.getmembers()[72]  # one in the middle
    start, size, whole = picture.offset_data, picture.size, shard.read_bytes()
    shard.write_bytes(
        {
            "cut in a picture": whole[: start + size // 2],
            "cut before a header": whole[: start - 512],
            "a header of zeros and ones": whole[: start - 512] + b"01" * 256 + whole[start:],
        }[damage]
    )
    words = ("split", tmp_path / "shards", "--run-root", tmp_path / "runs", "--val-fraction", "0.2")
    refused = mptctl(*words)
    assert (refused.returncode, (tmp_path / "runs").exists()) == (4, False)
    assert f"offset {start if 'in a' in damage else start - 512:,}" in refused.stderr
    kept = mptctl(*words, "--on-bad", "quarantine")
    assert kept.returncode == 0, kept.stderr
    file = load_split(tmp_path / "runs").file
    assert len(file.quarantined) == 1
    assert file.counts["train"] + file.counts["val"] == 36
