"""`mptctl tune`: search k and further settings on held-out samples."""

from __future__ import annotations

from mptctl.cli.flag_records import with_flags
from mptctl.cli.json_models import prints
from mptctl.cli.training_flags import TrainingFlags
from mptctl.cli.tune_flags import TuneFlags


@prints(
    {"--json": "mptctl.tune.tune_report:TuneReport", "--dry-run --json": "mptctl.tune.dry_run:TuneDryRun"}
)
@with_flags
def tune(*, tuning: TuneFlags, flags: TrainingFlags) -> None:
    """Search k on held-out samples; write the chosen recipe.

    Chooses the lowest NFR among the trials whose validation error is at most the reference's plus
    --max-er-increase; with --max-nfr the lowest error among the trials shown to keep that budget of flips.
    The test set is not read. Writes `tune/best.yaml`, `tune/trials.json`, `tune/tune.png`, `tune/tune.html`,
    and a run folder for each trial below `tune/trials`.

    Exits with 3, and writes no recipe, where no trial keeps the limit.

    Examples:

        mptctl tune

        mptctl tune --k 0,1,2,4 --distance kl,lm --max-er-increase 1

        mptctl tune --max-nfr 2

        mptctl tune --search optuna --trials 30 --k 0:8 --lr 0.01:0.2 --asha

        mptctl train-mpt --recipe runs/tune/best.yaml
    """
    from mptctl.cli.runners.tune import tune_k

    tune_k(flags, tuning)
