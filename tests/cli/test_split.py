"""`mptctl split` as it is typed: output, exit codes, messages."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.common import CommandLine


def test_digits_make_a_split_file_and_a_table(mptctl: CommandLine, tmp_path: Path) -> None:
    done = mptctl("split", "digits", "--run-root", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert (tmp_path / "split.json").is_file()
    lines = done.stdout.splitlines()
    assert "5 old and 5 new classes" in " ".join(done.stdout.split())  # a long path breaks the line
    assert [line.split() for line in lines if line.startswith("train")] == [["train", "404", "402", "806"]]
    assert max(map(len, lines[1:])) <= 80


def test_characters_need_no_data_root(mptctl: CommandLine, tmp_path: Path) -> None:
    done = mptctl("split", "characters", "--run-root", tmp_path, "--seed", "1", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert (found["data_root"], found["num_old"], found["num_new"]) == (None, 31, 31)
    assert {part: counts["all"] for part, counts in found["parts"].items()} == {
        "train": 62 * 264, "val": 62 * 66, "test": 62 * 150,
    }  # fmt: skip


def test_old_classes_come_from_a_file_in_its_order(mptctl: CommandLine, tmp_path: Path) -> None:
    names = tmp_path / "old.txt"
    names.write_text("7\n3\n\n")
    done = mptctl("split", "digits", "--run-root", tmp_path / "runs", "--old-classes", names, "--json")
    found = json.loads(done.stdout)
    assert found["old_classes"] == ["7", "3"]
    assert found["new_classes"] == ["0", "1", "2", "4", "5", "6", "8", "9"]


def test_it_says_which_folder_is_which_part_and_which_classes_a_part_lacks(
    mptctl: CommandLine, own_folder: Path, tmp_path: Path
) -> None:
    words = ("split", "imagefolder", "--data-root", own_folder, "--run-root")
    held_out = mptctl(*words, tmp_path / "a", "--val-fraction", "0.2")
    for line in ("train/ is for training", "part of train/ is for validation", "val/ is for the test"):
        assert line in held_out.stdout.splitlines()
    shutil.copytree(own_folder / "val", own_folder / "test")
    shutil.rmtree(own_folder / "test" / "class1")
    own = mptctl(*words, tmp_path / "b")
    lines = own.stdout.splitlines()
    assert [line for line in lines if "/ is for" in line] == [
        "train/ is for training", "val/ is for validation", "test/ is for the test",
    ]  # fmt: skip
    assert "warning: no test picture of class1" in lines
    refused = mptctl(*words, tmp_path / "c", "--val-fraction", "0.1")
    assert refused.returncode == 2
    assert "has a validation part and a test part; leave it out" in refused.stderr


def test_class_labels_are_shown_to_people_and_ids_stay_in_json(mptctl: CommandLine, tmp_path: Path) -> None:
    names = tmp_path / "names.txt"
    names.write_text("0 zero\n7 seven\n")
    flags = ("split", "digits", "--run-root", tmp_path / "runs", "--class-labels", names)
    done = mptctl(*flags)
    assert done.returncode == 0, done.stderr
    assert "old: zero (0), 1, 2, 3, 4\n" in done.stdout
    assert "1, 2, 3 and 5 more have no name and are shown by id" in " ".join(done.stdout.split())
    summary = json.loads(mptctl(*flags, "--json").stdout)
    assert summary["old_classes"] == ["0", "1", "2", "3", "4"]
    assert summary["class_labels"] == {"0": "zero", "7": "seven"}
    # Without the flag the names stay, and no split is made anew for them.
    assert "zero (0)" in mptctl("split", "digits", "--run-root", tmp_path / "runs").stdout
