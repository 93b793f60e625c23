"""`mptctl train-ref`: the independent new model, which teaches the update what the new classes look like."""

from __future__ import annotations

from pathlib import Path

from mptctl.cli import options as opt
from mptctl.cli.training_verbs import TrainingFlags, start


def train_ref(
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
    """Train the reference: plain cross-entropy on all classes, independent of the old model.

    Writes the run folder `ref`. For an ensemble, run it with other seeds and names.

    Examples:

        mptctl train-ref

        mptctl train-ref --seed 1 --name ref-1
    """
    # Here, because it takes seconds to import.
    from mptctl.training.request import REF_SEED_OFFSET

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
    start(flags, name="ref", fixed={"method.name": "no-treatment"}, seed_offset=REF_SEED_OFFSET)
