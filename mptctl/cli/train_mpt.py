"""`mptctl train-mpt`: the update that keeps what the old model knew."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from mptctl import names
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
    from mptctl.data.split import load_split

    load_split(run_root)  # whose absence is to be said at once: methods take seconds to import
    method = method_with(distance.value if distance is not None else None, recipe)
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


def method_with(distance: names.Distance | None, recipe: str | None) -> names.MethodName:
    """The method with a distance: that of the flag, or of the recipe's own method, so that a tuned recipe needs no
    flag, or else kl."""
    from mptctl.methods.table import distance_of, mpt_method
    from mptctl.recipe import load_recipe

    if distance is None and recipe is not None:
        distance = distance_of(load_recipe(recipe).method.name)
    return mpt_method(distance or "kl")
