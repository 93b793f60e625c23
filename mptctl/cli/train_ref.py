"""`mptctl train-ref`: train the reference, an independent model of all classes that teaches the update."""

from __future__ import annotations

from mptctl.cli import options as opt
from mptctl.cli.flag_records import with_flags
from mptctl.cli.training_flags import IndependentFlags, prints_run


@prints_run
@with_flags
def train_ref(log: opt.Log = None, *, flags: IndependentFlags) -> None:
    """Train the reference: plain training on all classes.

    The reference is independent of the old model; train-mpt distils from both. Writes the run folder `ref`.

    Examples:

        mptctl train-ref

        mptctl train-ref --seed 1 --name ref-1
    """
    from mptctl.cli.runners.train import train_reference

    train_reference(flags, log)
