"""`mptctl train-old`: the model in production, which knows the old classes only."""

from __future__ import annotations

from pathlib import Path

from mptctl.cli import options as opt
from mptctl.cli.training_verbs import TrainingFlags, start


def train_old(
    run_root: opt.RunRoot = Path("runs"),
    recipe: opt.RecipeName = None,
    overrides: opt.Overrides = None,
    name: opt.Name = None,
    resume: opt.Resume = False,
    overwrite: opt.Overwrite = False,
    seed: opt.IndependentSeed = None,
    device: opt.Device = None,
    dry_run: opt.DryRun = False,
    print_recipe: opt.PrintRecipe = False,
    as_json: opt.Json = False,
) -> None:
    """Train the old model: plain cross-entropy on the old classes.

    Writes the run folder `old`, which train-mpt and train-baseline take as their --old.

    Examples:

        mptctl train-old

        mptctl train-old --recipe cifar100 --set optim.epochs=30
    """
    # Here, because it takes seconds to import.
    from mptctl.training.request import OLD_SEED_OFFSET

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
        name="old",
        fixed={"method.name": "no-treatment"},
        only_old_classes=True,
        seed_offset=OLD_SEED_OFFSET,
    )
