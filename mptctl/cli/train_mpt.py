"""`mptctl train-mpt`: train an update by margin preserving training."""

from __future__ import annotations

from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.flag_records import with_flags
from mptctl.cli.training_flags import TrainingFlags, UpdateFlags, prints_run
from mptctl.names import Distance


@prints_run
@with_flags
def train_mpt(
    distance: Annotated[
        Distance | None,
        typer.Option(
            "--distance",
            help="Distance to the teachers: kl (KL divergence) or lm (logit matching). (default: kl)",
        ),
    ] = None,
    k: Annotated[
        float | None,
        typer.Option(
            "--k", help="Bias k, added to the new classes' logits in training. (default: the recipe's)"
        ),
    ] = None,
    max_nfr: Annotated[
        float | None,
        opt.max_nfr("Largest NFR, in place of --k: k is adjusted in training so that NFR stays within it."),
    ] = None,
    confidence: Annotated[float | None, opt.confidence()] = None,
    no_ref: Annotated[
        bool,
        typer.Option("--no-ref", help="Distil from the old model alone; no reference is trained before."),
    ] = False,
    init: opt.InitWeights = None,
    *,
    update: UpdateFlags,
    flags: TrainingFlags,
) -> None:
    """Train the update with margin preserving training.

    Minimises cross-entropy with a bias k on the new classes' logits, and focal distillation from the old
    model and the reference. Writes the run folder `mpt-kl` or `mpt-lm`; with `--no-ref`, `mpt-kl-noref` or
    `mpt-lm-noref`.

    With `--max-nfr` no k is needed: k is adjusted after each epoch of the third quarter of the run, by the
    flips of the validation part. Then `adjust` shifts the new classes' logits as far as the budget still
    needs, and writes the model that keeps the budget as `NAME-adjusted`. Exits with 3 where no shift keeps
    it.

    Examples:

        mptctl train-mpt --distance kl --k 1.5

        mptctl train-mpt --distance lm --k 4 --set optim.epochs=30

        mptctl train-mpt --max-nfr 2

        mptctl train-mpt --no-ref --init old --k 1.5

        mptctl train-mpt --recipe runs/tune/best.yaml
    """
    from mptctl.cli.runners.budget import BudgetOrK
    from mptctl.cli.runners.train import MptVariant, train_mpt_update

    variant = MptVariant(distance, with_ref=not no_ref, init=init)
    train_mpt_update(flags, update, variant, BudgetOrK(k, max_nfr, confidence))
