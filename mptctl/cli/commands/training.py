"""The commands of the panel "Train an update"."""

from __future__ import annotations

from mptctl.cli.jobs import job

RUN = {
    "--json": "mptctl.training.observer:TrainSummary",
    "--dry-run --json": "mptctl.training.dry_run:DryRun",
}
ENSEMBLE = {
    "--json": "mptctl.training.ensemble:EnsembleSummary",
    "--dry-run --json": "mptctl.training.ensemble:EnsembleDryRun",
}
TUNE = {"--json": "mptctl.tune.tune_report:TuneReport", "--dry-run --json": "mptctl.tune.dry_run:TuneDryRun"}


@job("training.train_request:IndependentRequest", "train:train_old", RUN)
def train_old() -> None:
    """Train the old model, on the old classes alone.

    Writes the run folder `old`, which train-mpt and train-baseline take as their --old.

    Examples:

        mptctl train-old

        mptctl train-old --recipe cifar100 --set optim.epochs=30
    """


@job("training.train_request:IndependentRequest", "train:train_ref", RUN)
def train_ref() -> None:
    """Train the reference: plain training on all classes.

    The reference is independent of the old model; train-mpt distils from both. Writes the run folder `ref`.

    Examples:

        mptctl train-ref

        mptctl train-ref --seed 1 --name ref-1
    """


@job("training.train_request:MptRequest", "train:train_mpt", RUN)
def train_mpt() -> None:
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


@job("training.train_request:BaselineRequest", "train:train_baseline", RUN)
def train_baseline() -> None:
    """Train the update with a rival method, or plainly.

    Writes the run folder METHOD. With `--init old` it begins with the old model's weights. ELODI needs an
    ensemble of references: give `--ref` the folder of its members, or repeat it.

    Examples:

        mptctl train-baseline no-treatment

        mptctl train-baseline no-treatment --init old --name plain-from-old

        mptctl train-baseline elodi --ref ensemble --cache-teachers
    """


@job("training.train_request:EnsembleRequest", "train_ensemble:train_members", ENSEMBLE)
def train_ensemble() -> None:
    """Train several references that differ in their seed.

    Writes the run folders `ensemble/0`, `ensemble/1` and so on; `--ref ensemble` names all of them.
    Finished members are kept: the same command with a larger --size adds members, and --resume continues
    interrupted ones.

    Examples:

        mptctl train-ensemble --size 4

        mptctl train-baseline elodi --ref ensemble --cache-teachers
    """


@job("tune.tune_settings:TuneSettings", "tune:tune_k", TUNE)
def tune() -> None:
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
