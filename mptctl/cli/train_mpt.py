"""`mptctl train-mpt`: the update that keeps what the old model knew."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from mptctl.cli import options as opt
from mptctl.cli.training_verbs import TrainingFlags, start


class Distance(StrEnum):
    """How the student's logits are compared with a teacher's."""

    kl = "kl"
    lm = "lm"


def train_mpt(
    distance: Annotated[
        Distance | None,
        typer.Option(
            "--distance", help="Distance to the teachers: KL divergence or logit matching. (default: kl)"
        ),
    ] = None,
    k: Annotated[
        float | None,
        typer.Option("--k", help="Bias on the logits of new classes in training. (default: the recipe's)"),
    ] = None,
    old: opt.Old = "old",
    ref: opt.Refs = None,
    run_root: opt.RunRoot = Path("runs"),
    recipe: opt.RecipeName = None,
    overrides: opt.Overrides = None,
    name: opt.Name = None,
    resume: opt.Resume = False,
    overwrite: opt.Overwrite = False,
    seed: opt.Seed = None,
    device: opt.Device = None,
    cache_teachers: opt.CacheTeachers = False,
    dry_run: opt.DryRun = False,
    print_recipe: opt.PrintRecipe = False,
    as_json: opt.Json = False,
) -> None:
    """Train the update: cross-entropy with a bias k on new classes, and distillation from old and reference.

    Writes the run folder `mpt-kl` or `mpt-lm`.

    Examples:

        mptctl train-mpt --distance kl --k 1.5

        mptctl train-mpt --distance lm --k 4 --set optim.epochs=30

        mptctl train-mpt --recipe runs/tune/best.yaml
    """
    method = f"mpt-{distance or distance_of(recipe)}"
    fixed: dict[str, Any] = {"method.name": method}
    if k is not None:
        fixed["method.k"] = k
    if cache_teachers:
        fixed["runtime.cache_teachers"] = True
    flags = TrainingFlags(
        run_root,
        recipe,
        overrides or [],
        name,
        resume,
        overwrite,
        seed,
        device,
        dry_run,
        print_recipe,
        as_json,
    )
    start(flags, name=method, fixed=fixed, old=old, refs=ref or ["ref"])


def distance_of(recipe: str | None) -> str:
    """The distance that a recipe's own method has, so that a tuned recipe needs no flag; kl where it has none."""
    if recipe is None:
        return "kl"
    from mptctl.recipe import load_recipe

    return "lm" if load_recipe(recipe).method.name == "mpt-lm" else "kl"
