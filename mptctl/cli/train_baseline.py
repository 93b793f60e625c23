"""`mptctl train-baseline`: every other method, of equal standing."""

from __future__ import annotations

from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.training_flags import TrainingFlags, training_flags
from mptctl.cli.training_verbs import method_keys, prints_run, read_inputs, run_training
from mptctl.names import METHOD_NAMES, Role

# Those of train-mpt are taken too, and not advertised.
BASELINES = [name for name in METHOD_NAMES if name not in ("mpt-kl", "mpt-lm")]


@prints_run
@training_flags()
def train_baseline(
    flags: TrainingFlags,
    method: Annotated[
        str,
        typer.Argument(metavar="METHOD", help=f"{', '.join(BASELINES[:-1])} or {BASELINES[-1]}."),
    ],
    k: Annotated[
        float | None,
        typer.Option(
            "--k",
            help="Bias k, added to the new classes' logits in training; for mpt-kl-noref, mpt-lm-noref and "
            "mpt-nodistill. "
            "(default: the recipe's)",
        ),
    ] = None,
    old: opt.Old = "old",
    ref: opt.Refs = None,
    cache_teachers: opt.CacheTeachers = False,
    log: opt.Log = None,
) -> None:
    """Train the update with a rival method, or plainly.

    Writes the run folder METHOD. ELODI needs an ensemble of references: give `--ref` the folder of its
    members, or repeat it.

    Examples:

        mptctl train-baseline no-treatment

        mptctl train-baseline elodi --ref ensemble --cache-teachers
    """
    inputs = read_inputs(flags, method)
    from mptctl.errors import UsageError
    from mptctl.methods.rows import ROWS
    from mptctl.recipe import validate_method

    row = ROWS[validate_method({"name": method}).name]
    if k is not None and not row.bias:
        raise UsageError(f"--k {k:g}: {method} has no k; leave it out, or use train-mpt or mpt-nodistill")
    run_training(
        inputs,
        method_keys(method, k, cache_teachers),
        name=method,
        old=old,
        refs=(ref or ["ref"]) if Role.REF in row.teachers else ref,
        needs_old=Role.OLD in row.teachers,
        log=log,
    )
