"""Comments leave out only lines that take room, and name no flag that their reader cannot type."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tests.common import CommandLine

CLASSES = np.array(["ant", "bee", "cow", "dog", "eel", "fox"])


@pytest.fixture
def pair(tmp_path: Path) -> tuple[Path, Path]:
    """Six classes of 40 samples, of which NEW flips five each; OLD errs on two each."""
    label = np.repeat(np.arange(6), 40)
    within = np.tile(np.arange(40), 6)
    old = np.where(within >= 38, (label + 1) % 6, label)
    new = np.where(within < 5, (label + 1) % 6, label)
    paths = tmp_path / "old.npz", tmp_path / "new.npz"
    for path, pred in zip(paths, (old, new), strict=True):
        np.savez(path, id=np.arange(240), label=CLASSES[label], pred=CLASSES[pred], classes=CLASSES)
    return paths


def test_four_limits_that_fail_are_all_named(
    pair: tuple[Path, Path], tmp_path: Path, mptctl: CommandLine
) -> None:
    gate = tmp_path / "gate.yaml"
    gate.write_text(
        "limits: {max_nfr: 1, max_lost: 1, max_rel_nfr: 1, max_er_increase: 0.1}\n", encoding="utf-8"
    )
    for words in ((), ("--markdown", "-")):
        done = mptctl("evaluate", *pair, "--gate", gate, *words)
        assert done.returncode == 3, done.stderr
        assert "1 more" not in done.stdout
    assert all(name in done.stdout for name in ("NFR 12.50 %", "lost", "Rel-NFR", "error"))
