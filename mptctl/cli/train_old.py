"""`mptctl train-old`: train the old model, which knows the old classes only."""

from __future__ import annotations

from mptctl.cli import options as opt
from mptctl.cli.flag_records import with_flags
from mptctl.cli.training_flags import IndependentFlags, prints_run


@prints_run
@with_flags
def train_old(log: opt.Log = None, *, flags: IndependentFlags) -> None:
    """Train the old model, on the old classes alone.

    Writes the run folder `old`, which train-mpt and train-baseline take as their --old.

    Examples:

        mptctl train-old

        mptctl train-old --recipe cifar100 --set optim.epochs=30
    """
    from mptctl.cli.runners.train import train_old_model

    train_old_model(flags, log)
