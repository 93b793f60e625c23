"""Row 52: folders in the temporary folder that are named as ours are, and are not scratch."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

from mptctl.data.split import make_split
from mptctl.files.scratch import MARK, remove_leftovers, scratch_folder


def everything(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def left_by_a_killed_program(temporary: Path) -> Path:
    """Scratch whose program is gone: its mark, and a lock that nobody holds."""
    with scratch_folder() as folder:
        kept = shutil.copytree(folder, temporary / "kept")
    kept.rename(folder)
    return folder


@pytest.mark.parametrize("lock", ["", f"{os.getpid()}\n"], ids=["empty", "a process"])
def test_row_52_a_run_root_that_a_person_put_there_stays(temporary: Path, lock: str) -> None:
    root = temporary / "mptctl-root"
    make_split("digits", run_root=root)
    for folder in (root, root / "1" / "old"):
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "lock").write_text(lock)  # as a study or a training that was killed leaves it
        (folder / "lock").chmod(0o600)
    root.chmod(0o700)
    before = everything(root)
    with scratch_folder():
        pass
    assert everything(root) == before


def test_row_52_scratch_that_was_left_is_removed_but_not_with_a_run_a_split_or_a_study_in_it(
    temporary: Path,
) -> None:
    for name in ("best.pt", "split.json", "environment.json", "trials.json", "split-0123456789abcdef.arrow"):
        left = left_by_a_killed_program(temporary)
        (left / "deep" / "down").mkdir(parents=True)
        (left / "deep" / "down" / name).write_text("work of a day")
        before = everything(temporary)
        remove_leftovers(temporary)
        assert everything(temporary) == before, name
        (left / "deep" / "down" / name).rename(left / "deep" / "down" / "spilled")
        remove_leftovers(temporary)
        assert everything(temporary) == [], name


@pytest.mark.parametrize(
    "mark",
    [
        "",
        "{",
        "4711\n",
        "[" * 100_000,
        json.dumps({"scratch of another program": "mptctl-abcd1234"}),
        json.dumps({"mptctl scratch": "mptctl-another1"}),
        json.dumps({"mptctl scratch": "mptctl-abcd1234"})[:-1],
    ],
)
def test_row_52_a_folder_without_our_own_mark_for_it_stays(temporary: Path, mark: str) -> None:
    folder = temporary / "mptctl-abcd1234"
    folder.mkdir(mode=0o700)
    (folder / "data").write_text("somebody's")
    (folder / MARK).write_text(mark)
    (folder / MARK).chmod(0o600)
    before = everything(temporary)
    remove_leftovers(temporary)
    assert everything(temporary) == before
