"""Shared by tests of the cache: teachers of the digits, and one that counts what it is asked."""

from __future__ import annotations

import shutil
from collections.abc import Collection
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from mptctl.data.loading.base import Loader
from mptctl.data.loading.choose import make_loader
from mptctl.data.loading.part import Batch, LoadPlan
from mptctl.data.split import Split, load_split
from mptctl.names import Role
from mptctl.recipe import Recipe
from mptctl.teachers.cache import CachedTeachers
from mptctl.teachers.cache_budget import CacheBudget
from mptctl.teachers.ensemble import Teachers
from mptctl.training.observer import Observer
from mptctl.training.request import RunRequest
from mptctl.training.train import train
from tests.common import CPU, digits_with_teachers, short_recipe

OLD, BOTH = frozenset({Role.OLD}), frozenset(Role)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run root with a split of the digits, and an old and a reference model of one epoch."""
    return digits_with_teachers(tmp_path_factory.mktemp("cache"), val_fraction=0.1, epochs=1).run_root


@pytest.fixture
def split(root: Path, tmp_path: Path) -> Split:
    """The split and the teachers in a run root of the test's own."""
    shutil.copytree(root, tmp_path / "runs")
    return load_split(tmp_path / "runs")


def update(split: Split, name: str, *overrides: str, method: str = "mpt-kl") -> dict[str, torch.Tensor]:
    """Train an update and give its weights."""
    runs = split.run_root
    recipe = short_recipe("optim.max_steps=30", *overrides, method=method)
    train(
        RunRequest(recipe, split, runs / name, runs / "old" / "best.pt", (runs / "ref" / "best.pt",)),
        Observer(),
    )
    weights: dict[str, torch.Tensor] = torch.load(runs / name / "last.pt", weights_only=True)["model"]
    return weights


def files(split: Split) -> list[Path]:
    return sorted((split.run_root / "cache" / "teachers").rglob("epoch-*.bin"))


class Counting:
    """Teachers that count how often they are asked to compute."""

    def __init__(self, teachers: Teachers) -> None:
        self.teachers = teachers
        self.digests = teachers.digests
        self.computed = 0

    def logits(self, batch: Batch, roles: Collection[Role]) -> dict[Role, Tensor]:
        self.computed += 1
        return self.teachers.logits(batch, roles)


def teachers_of(split: Split, recipe: Recipe, **changes: Any) -> tuple[Counting, Loader]:
    runs = split.run_root
    best = (runs / "old" / "best.pt", [runs / "ref" / "best.pt"])
    teachers = Teachers(*best, split.classes, recipe.data, recipe.runtime, CPU)
    plan = {"part": "train", "batch_size": 64, "seed": 0, "train": True, "device": CPU} | changes
    loader = make_loader(LoadPlan(split, recipe.data, **plan))
    return Counting(teachers), loader


def cached(split: Split, recipe: Recipe, **changes: Any) -> tuple[CachedTeachers, Counting, Loader]:
    """A cache of both teachers for a training plan; ``changes`` are of the plan."""
    teachers, loader = teachers_of(split, recipe, **changes)
    budget = CacheBudget(split.run_root / "cache" / "teachers", recipe.runtime)
    return CachedTeachers(teachers, loader, recipe, BOTH, budget), teachers, loader


def opened(split: Split, recipe: Recipe, **changes: Any) -> tuple[CachedTeachers, Counting, Loader]:
    source, teachers, loader = cached(split, recipe, **changes)
    source.budget.evict()
    return source, teachers, loader
