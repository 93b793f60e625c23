"""`mptctl split` as it is typed: output, exit codes, messages."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

from tests.common import CommandLine


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
    plain = ("split", "digits", "--run-root", tmp_path / "runs")
    done = mptctl(*plain, "--class-labels", names)
    assert "old: zero (0), 1, 2, 3, 4\n" in done.stdout
    assert "1, 2, 3 and 5 more have no name and are shown by id" in " ".join(done.stdout.split())
    assert max(map(len, done.stdout.splitlines()[1:])) <= 80
    # Without the flag the names stay, and no split is made anew for them.
    assert "zero (0)" in mptctl(*plain).stdout
    summary = json.loads(mptctl(*plain, "--json").stdout)
    assert summary["old_classes"] == ["0", "1", "2", "3", "4"]
    assert summary["class_labels"] == {"0": "zero", "7": "seven"}
