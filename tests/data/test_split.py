"""The split: who is old, who is held out, what is kept, what is refused; and what it says of itself."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from mptctl.data.split import load_split, make_split
from mptctl.data.split_summary import summarise
from mptctl.errors import UsageError
from tests.common import CommandLine


def test_a_split_is_found_again_as_it_was_made(tmp_path: Path, folder: Path) -> None:
    made = make_split(
        "imagefolder", run_root=tmp_path, data_root=folder, order="random", seed=4, val_fraction=0.2
    )
    found = load_split(tmp_path)
    assert found.fingerprint == made.fingerprint
    assert found.classes == made.classes
    np.testing.assert_array_equal(found.labels, made.labels)
    for part in ("train", "val", "test"):
        np.testing.assert_array_equal(found.indices(part), made.indices(part))
    assert sorted(path.name for path in tmp_path.iterdir()) == [made.file.table, "split.json"]


def test_labels_follow_the_class_order_by_name(tmp_path: Path, folder: Path) -> None:
    split = make_split("imagefolder", run_root=tmp_path, data_root=folder, old_names=["class2", "class1"])
    assert split.classes.names == ("class2", "class1", "class0", "class3")
    assert split.classes.num_old == 2
    for i in split.indices("train").tolist():
        assert split.ids(np.array([i]))[0].split("/")[1] == split.classes.names[split.labels[i]]


def test_a_kept_split_does_not_ignore_how_pictures_are_to_be_checked(
    own_folder: Path, tmp_path: Path, mptctl: CommandLine
) -> None:
    words = ("split", own_folder, "--run-root", tmp_path)
    assert mptctl(*words).returncode == 0
    assert (
        mptctl(*words, "--on-duplicates", "quarantine", "--on-bad", "quarantine").returncode == 0
    )  # no such
    refused = mptctl(*words, "--verify", "decode")
    assert (refused.returncode, "verify: header -> decode" in refused.stderr) == (2, True)
    shutil.copy(own_folder / "val" / "class1" / "000.jpg", own_folder / "train" / "class1" / "twin.jpg")
    assert "--on-duplicates quarantine" in mptctl(*words, "--overwrite").stdout  # what the warning advises
    refused = mptctl(*words, "--on-duplicates", "quarantine")
    assert (refused.returncode, "on_duplicates: keep -> quarantine" in refused.stderr) == (2, True)
    (own_folder / "train" / "class1" / "twin.jpg").write_bytes(b"")
    assert mptctl(*words, "--overwrite", "--on-bad", "quarantine").returncode == 0
    refused = mptctl(*words)
    assert (refused.returncode, "on_bad: quarantine -> fail" in refused.stderr) == (2, True)
    assert mptctl(*words, "--on-bad", "quarantine").returncode == 0


def test_a_split_can_be_read_while_it_is_replaced(tmp_path: Path) -> None:
    make_split("digits", run_root=tmp_path, seed=1)
    program = """
import itertools
import sys
from pathlib import Path
from mptctl.data.split import make_split
for number in itertools.count():
    make_split("digits", run_root=Path(sys.argv[1]), seed=number % 2, overwrite=True)
"""
    with subprocess.Popen([sys.executable, "-c", program, str(tmp_path)]) as writer:
        changes, before = 0, 1
        while changes < 10:
            assert writer.poll() is None
            seed = load_split(tmp_path).file.request.seed
            changes += seed != before
            before = seed
        writer.kill()


def test_a_split_that_another_command_made_meanwhile_stays(
    mptctl: CommandLine, folder: Path, tmp_path: Path
) -> None:
    """The other command ends while this one looks at its pictures, after it found no split."""
    words = ("split", folder, "--run-root", tmp_path)

    def other_command(*_: object) -> None:
        if not (tmp_path / "split.json").exists():
            assert mptctl(*words, "--seed", "1").returncode == 0

    with pytest.raises(UsageError, match=r"holds another split \(seed: 1 -> 2\)"):
        make_split("imagefolder", run_root=tmp_path, data_root=folder, seed=2, progress=other_command)
    assert load_split(tmp_path).file.request.seed == 1
    for path in tmp_path.iterdir():
        path.unlink()
    same = make_split("imagefolder", run_root=tmp_path, data_root=folder, seed=1, progress=other_command)
    assert same.fingerprint == load_split(tmp_path).fingerprint


@pytest.mark.parametrize(("fraction", "held"), [(0.0, 0), (0.1, 1), (0.25, 3), (0.5, 5)])
def test_the_validation_part_is_the_same_share_of_each_class(
    tmp_path: Path, folder: Path, fraction: float, held: int
) -> None:
    split = make_split("imagefolder", run_root=tmp_path, data_root=folder, val_fraction=fraction)
    assert np.bincount(split.labels[split.indices("val")], minlength=4).tolist() == [held] * 4
    assert len(split.indices("train")) == 40 - 4 * held
    assert len(split.indices("test")) == 16


def test_the_validation_part_depends_on_the_seed_and_not_on_the_class_order(tmp_path: Path) -> None:
    splits = [
        make_split("digits", run_root=tmp_path / str(number), seed=seed, order=order)
        for number, (seed, order) in enumerate([(0, "given"), (0, "random"), (1, "given")])
    ]
    held = [set(split.indices("val").tolist()) for split in splits]
    assert held[0] == held[1]
    assert len(held[0] & held[2]) < len(held[0]) / 2
    assert len({split.fingerprint for split in splits}) == 3


@pytest.mark.parametrize(("fraction", "held"), [(0.04, 0), (0.05, 4), (0.0, 0)])
def test_a_validation_part_that_rounds_to_nothing_is_said_with_what_would_hold_out_one(
    tmp_path: Path, folder: Path, fraction: float, held: int
) -> None:
    """Each class has 10 training pictures, of which 0.04 is 0.4 of a picture and 0.05 is rounded to one."""
    split = make_split("imagefolder", run_root=tmp_path, data_root=folder, val_fraction=fraction)
    assert len(split.indices("val")) == held
    notes = [text for text in summarise(split, kept=False).notes if text.startswith("warning")]
    said = (
        "warning: --val-fraction 0.04 of at most 10 training pictures a class rounds to none, so there is no "
        "validation part; hold out at least 0.05"
    )
    assert notes == [said] * (fraction == 0.04)
