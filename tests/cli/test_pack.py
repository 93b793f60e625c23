"""`mptctl pack` as it is typed: output, exit codes, messages."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.common import CommandLine


@pytest.mark.parametrize(("to", "place"), [("folder", "{}"), ("shards", "'{}/*.tar'")])
def test_it_says_what_became_of_the_pictures_and_what_to_type_next(
    to: str, place: str, mptctl: CommandLine, folder: Path, tmp_path: Path
) -> None:
    done = mptctl("pack", folder, tmp_path / "small", "--short-side", "50", "--to", to)
    assert (done.returncode, done.stderr) == (0, "")
    first, sizes, last = done.stdout.splitlines()
    assert first.startswith("56 pictures: ")
    assert "made smaller" in first
    assert "MB became" in sizes
    assert last == f"next: mptctl split {place.format(tmp_path / 'small')}"
    done = mptctl(*shlex.split(last)[2:], "--run-root", tmp_path / "runs")
    assert done.returncode == 0, done.stderr


def test_a_copy_without_parts_needs_a_test_part(mptctl: CommandLine, folder: Path, tmp_path: Path) -> None:
    table = tmp_path / "t.csv"
    paths = sorted((folder / "train").glob("*/*.jpg"))
    table.write_text("path,label\n" + "".join(f"{path},{path.parent.name}\n" for path in paths))
    done = mptctl("pack", table, tmp_path / "copy")
    assert done.returncode == 0, done.stderr
    last = done.stdout.splitlines()[-1]
    assert last == f"next: mptctl split {tmp_path / 'copy'} --test-fraction 0.2"
    done = mptctl(*shlex.split(last)[2:], "--run-root", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
