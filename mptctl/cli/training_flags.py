"""Flags that the training commands share."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints

prints_run = prints(
    {"--json": "mptctl.training.observer:TrainSummary", "--dry-run --json": "mptctl.training.dry_run:DryRun"}
)


@dataclass(frozen=True)
class TrainingFlags:
    """Flags that every training command has."""

    run_root: opt.RunRoot = Path("runs")
    data_root: opt.MovedData = None
    recipe: opt.RecipeName = None
    overrides: opt.Overrides = None
    name: opt.Name = None
    resume: opt.Resume = False
    overwrite: opt.Overwrite = False
    seed: opt.Seed = None
    device: opt.Device = None
    dry_run: opt.DryRun = False
    print_recipe: opt.PrintRecipe = False
    as_json: opt.Json = False


@dataclass(frozen=True)
class IndependentFlags(TrainingFlags):
    """Training flags of the old model and of references, whose default seeds differ from the update's."""

    seed: opt.IndependentSeed = None


@dataclass(frozen=True)
class UpdateFlags:
    """The teachers of an update, and where it is logged."""

    old: opt.Old = "old"
    ref: opt.Refs = None
    cache_teachers: opt.CacheTeachers = False
    log: opt.Log = None
