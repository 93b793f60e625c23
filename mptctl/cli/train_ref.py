"""`mptctl train-ref`: the independent new model, which teaches the update what the new classes look like."""

from __future__ import annotations

from mptctl.cli import options as opt
from mptctl.cli.training_flags import TrainingFlags, training_flags
from mptctl.cli.training_verbs import prints_run, read_inputs, run_training


@prints_run
@training_flags(seed=opt.IndependentSeed)
def train_ref(flags: TrainingFlags, log: opt.Log = None) -> None:
    """Train the reference: plain training on all classes.

    The reference is independent of the old model; train-mpt distils from both. Writes the run folder `ref`.

    Examples:

        mptctl train-ref

        mptctl train-ref --seed 1 --name ref-1
    """
    # Here, because it takes seconds to import.
    from mptctl.training.request import REF_SEED_OFFSET

    run_training(
        read_inputs(flags, "ref"),
        {"method.name": "no-treatment", "method.init": "fresh"},
        name="ref",
        seed_offset=REF_SEED_OFFSET,
        then="train-mpt",
        log=log,
    )
