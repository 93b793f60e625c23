"""`mptctl train-old`: the model in production, which knows the old classes only."""

from __future__ import annotations

from mptctl.cli import options as opt
from mptctl.cli.training_flags import TrainingFlags, training_flags
from mptctl.cli.training_verbs import prints_run, read_inputs, run_training


@prints_run
@training_flags(seed=opt.IndependentSeed)
def train_old(flags: TrainingFlags, log: opt.Log = None) -> None:
    """Train the old model, on the old classes alone.

    Writes the run folder `old`, which train-mpt and train-baseline take as their --old.

    Examples:

        mptctl train-old

        mptctl train-old --recipe cifar100 --set optim.epochs=30
    """
    # Here, because it takes seconds to import.
    from mptctl.training.request import OLD_SEED_OFFSET

    run_training(
        read_inputs(flags, "old"),
        {"method.name": "no-treatment", "method.init": "fresh"},
        name="old",
        only_old_classes=True,
        seed_offset=OLD_SEED_OFFSET,
        then="train-ref",
        log=log,
    )
