"""Twelve sound predictions, and calls that are refused, for tests of faults."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.common import CommandLine
from tests.evaluation.files import write

IDS, LABELS = [f"s{i}" for i in range(12)], ["cat", "dog", "bird"] * 4


def good(path: Path, **columns: Any) -> Path:
    """Twelve sound rows, or with other columns."""
    return write(path, **{"id": IDS, "label": LABELS, "pred": LABELS} | columns)


def refused(mptctl: CommandLine, code: int, *words: object) -> str:
    """A call that ends with a code, one line, and no rate."""
    done = mptctl("evaluate", *words)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert done.stderr.startswith("mptctl: ")
    assert done.stderr.count("\n") == 1
    return done.stderr
