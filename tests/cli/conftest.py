"""What tests of `mptctl evaluate` share: two small files of predictions, and the command line beside them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from tests.common import CommandLine, Done

IDS = np.array([f"test/{i:05d}" for i in range(8)])
LABELS = np.array([0, 0, 0, 0, 1, 1, 2, 2])
# Old knows 0 and 1: right on five of its six. New: one flip to 1, one flip to 2; one positive flip.
OLD = np.array([0, 0, 0, 0, 1, 0, 1, 1])
NEW = np.array([0, 0, 1, 0, 2, 1, 2, 2])


Call = Callable[..., Done]


@pytest.fixture
def call(mptctl: CommandLine, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    """Run `mptctl evaluate` in an empty folder that holds old.npz and new.npz."""
    monkeypatch.chdir(tmp_path)
    np.savez("old.npz", id=IDS, label=LABELS, pred=OLD, classes=[0, 1])
    np.savez("new.npz", id=IDS[::-1], label=LABELS[::-1], pred=NEW[::-1], classes=[0, 1, 2])
    return lambda *words: mptctl("evaluate", *words)
