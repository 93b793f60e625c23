"""`mptctl train-baseline`: train an update with a rival method, or plainly."""

from __future__ import annotations

from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.flag_records import with_flags
from mptctl.cli.training_flags import TrainingFlags, UpdateFlags, prints_run
from mptctl.names import METHOD_NAMES

# The methods of train-mpt are taken too, and not advertised.
BASELINES = [name for name in METHOD_NAMES if name not in ("mpt-kl", "mpt-lm")]


@prints_run
@with_flags
def train_baseline(
    method: Annotated[
        str,
        typer.Argument(metavar="METHOD", help=f"{', '.join(BASELINES[:-1])} or {BASELINES[-1]}."),
    ],
    k: Annotated[
        float | None,
        typer.Option(
            "--k",
            help="Bias k, added to the new classes' logits in training; for mpt-kl-noref, mpt-lm-noref and "
            "mpt-nodistill. (default: the recipe's)",
        ),
    ] = None,
    init: opt.InitWeights = None,
    *,
    update: UpdateFlags,
    flags: TrainingFlags,
) -> None:
    """Train the update with a rival method, or plainly.

    Writes the run folder METHOD. With `--init old` it begins with the old model's weights. ELODI needs an
    ensemble of references: give `--ref` the folder of its members, or repeat it.

    Examples:

        mptctl train-baseline no-treatment

        mptctl train-baseline no-treatment --init old --name plain-from-old

        mptctl train-baseline elodi --ref ensemble --cache-teachers
    """
    from mptctl.cli.runners.train import train_rival

    train_rival(flags, update, method, k, init)
