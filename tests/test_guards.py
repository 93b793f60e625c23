"""Every guard is where its patch looks for it: `make break-guards` takes all of them out."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.common import ROOT
from tools.guards import GUARDS, Patch

PATCHES = [(row, patch) for row, guard in GUARDS.items() for patch in guard.patches]


@pytest.mark.parametrize(("row", "patch"), PATCHES)
def test_a_guard_stands_once_in_its_file(row: int, patch: Patch) -> None:
    assert Path(ROOT, patch.file).read_text(encoding="utf-8").count(patch.text) == 1
    assert patch.text != patch.without


def test_every_row_has_a_guard() -> None:
    tests = "".join(path.read_text(encoding="utf-8") for path in Path(ROOT, "tests/faults").glob("test_*.py"))
    assert sorted(GUARDS) == sorted({int(row) for row in re.findall(r"def test_row_(\d+)_", tests)})
    assert all(guard.patches for guard in GUARDS.values())
