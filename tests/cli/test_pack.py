"""`mptctl pack` as it is typed: what it says became of the pictures, and the command to type next."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from tests.common import CommandLine


@pytest.mark.parametrize(
    ("source", "flags", "what_next"),
    [
        ("folder", "--short-side 50", "{}"),
        ("folder", "--short-side 50 --to shards", "'{}/*.tar'"),
        ("table", "", "{} --test-fraction 0.2"),
    ],
)
def test_it_says_what_became_of_the_pictures_and_what_to_type_next(
    source: str, flags: str, what_next: str, mptctl: CommandLine, folder: Path, tmp_path: Path
) -> None:
    table = tmp_path / "t.csv"  # without parts
    rows = [f"{path},{path.parent.name}\n" for path in folder.glob("train/*/*.jpg")]
    table.write_text("path,label\n" + "".join(rows))
    done = mptctl("pack", folder if source == "folder" else table, tmp_path / "copy", *flags.split())
    assert (done.returncode, done.stderr) == (0, "")
    first, *_, last = done.stdout.splitlines()
    assert first.startswith(f"{56 if source == 'folder' else len(rows)} pictures: ")
    assert ("made smaller" in first, " MB became " in done.stdout) == (bool(flags), True)
    assert last == f"next: mptctl split {what_next.format(tmp_path / 'copy')}"
    done = mptctl(*shlex.split(last)[2:], "--run-root", tmp_path / "runs")
    assert done.returncode == 0, done.stderr
