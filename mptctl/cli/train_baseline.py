"""`mptctl train-baseline`: every other method, of equal standing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from mptctl.cli import options as opt
from mptctl.cli.training_verbs import TrainingFlags, start
from mptctl.names import Role


def train_baseline(
    method: Annotated[
        str,
        typer.Argument(
            metavar="METHOD",
            help="no-treatment, pct-naive, pct-kl, pct-lm, elodi, elodi-topk, mpt-nodistill, mpt-kl-nobias "
            "or mpt-lm-nobias.",
        ),
    ],
    k: Annotated[
        float | None,
        typer.Option(
            "--k", help="Bias on the logits of new classes, for mpt-nodistill. (default: the recipe's)"
        ),
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
    """Train an update with another method, to compare with.

    Writes the run folder METHOD. ELODI takes as many --ref as its ensemble has members.

    Examples:

        mptctl train-baseline no-treatment

        mptctl train-baseline elodi --ref ref-0 --ref ref-1 --ref ref-2
    """
    from mptctl.data.split import load_split

    load_split(run_root)
    # After the split, whose absence is to be said at once: methods take seconds to import.
    from mptctl.methods.table import build_method

    chosen = build_method(method, num_old=1)
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
    start(
        flags,
        name=method,
        fixed=fixed,
        old=old,
        refs=(ref or ["ref"]) if Role.REF in chosen.teachers else ref,
        needs_old=Role.OLD in chosen.teachers,
    )
