"""What many tests share: one thread for torch, a split of the digits, and recipes that take seconds."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import settings

from mptctl.data.split import Split, make_split
from mptctl.recipe import Recipe, load_recipe

# Two cores are shared by many tests; more threads than cores make all of them slow.
torch.set_num_threads(1)
os.environ.setdefault("OMP_NUM_THREADS", "1")

# No test is timed: a busy machine is no failure.
settings.register_profile("mptctl", deadline=None, max_examples=50)
settings.load_profile("mptctl")


@pytest.fixture(scope="session")
def digits_root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run root with a split of the digits; not to be written to."""
    root = tmp_path_factory.mktemp("digits")
    make_split("digits", run_root=root)
    return root


@pytest.fixture
def digits(tmp_path: Path) -> Split:
    """A split of the digits in a run root of the test's own."""
    return make_split("digits", run_root=tmp_path / "runs")


def short_recipe(*overrides: str, method: str = "no-treatment", **fixed: Any) -> Recipe:
    """The digits preset for two epochs on one CPU thread."""
    base = ("optim.epochs=2", "runtime.device=cpu", "runtime.threads=1")
    return load_recipe("digits", (*base, *overrides), {"method.name": method, **fixed})
