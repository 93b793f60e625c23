"""Tunes the methods of a study alike: trials of each, on the validation part of its first seed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from mptctl.errors import CheckpointError
from mptctl.methods.rows import refuse_unused_keys
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.metrics_log import best_epoch, read_metrics
from mptctl.models.records import Validation
from mptctl.models.run_folder import RunDir
from mptctl.recipe.search import TrialSettings, name_of, parse_key_axis, random_points, recipe_at
from mptctl.studies.cost_of_run import count_run
from mptctl.studies.study_file import REF, TRIALS, Study
from mptctl.studies.study_plan import PlannedRun, plan_study
from mptctl.studies.tuning.record import TunedTrial, Tuning


@dataclass(frozen=True)
class PlannedTrial:
    """A trial of a row.

    Attributes:
        row: name of the update.
        settings: of the trial.
        run: as planned.
    """

    row: str
    settings: TrialSettings
    run: PlannedRun


def plan_trials(study: Study, seed: int) -> list[PlannedTrial]:
    """Plan the trials of all rows that are tuned, on one seed; as many for each as its row says.

    Raises:
        UsageError: a key is none of the recipe, or the method does not use it, or a value is not valid.
    """
    tuned = {row.name: row.tune for row in study.file.updates if row.tune is not None}
    trials = []
    for update in plan_study(study, [seed]):
        if update.name not in tuned:
            continue
        tune = tuned[update.name]
        axes = [parse_key_axis(f"{key}={text}") for key, text in tune.search.items()]
        refuse_unused_keys(update.recipe.method.name, tune.search, f"{update.name}: tune.search")
        for point in random_points(axes, tune.trials, update.seed):
            name = f"{TRIALS}{update.name}/{name_of(point)}"
            run = replace(update, name=name, recipe=recipe_at(update.recipe, point))
            trials.append(PlannedTrial(update.name, point, run))
    return trials


def choose_tunings(study: Study, trials: Sequence[PlannedTrial], root: Path) -> dict[str, Tuning]:
    """Choose a trial for each row that is tuned: the fewest flips within the limit on the error.

    Where no trial is within the limit, the one with the fewest errors is chosen.

    Args:
        study: the content of the study.
        trials: all of them, trained.
        root: the run root of the study.
    """
    tunings = {}
    for row in study.file.updates:
        own = [trial for trial in trials if trial.row == row.name]
        if row.tune is not None and own:
            tunings[row.name] = _choose(own, row.tune.max_er_increase / 100, root)
    return tunings


def _choose(trials: Sequence[PlannedTrial], max_er_increase: float, root: Path) -> Tuning:
    """Choose among the trials of one row; the increase above the reference's error is a fraction."""
    reference = _validated(root / trials[0].run.split_folder / REF)
    limit = (reference.error or 0.0) + max_er_increase
    tuned = []
    for trial in trials:
        counts = _validated(root / trial.run.key)
        within = (counts.error or 0.0) <= limit + 1e-9
        tuned.append(
            TunedTrial(settings=trial.settings, errors=counts.errors, flips=counts.flips or 0, within=within)
        )
    within_limit = [trial for trial in tuned if trial.within]
    if within_limit:
        best = min(within_limit, key=lambda trial: (trial.flips, trial.errors))
    else:
        best = min(tuned, key=lambda trial: trial.errors)
    return Tuning(
        seed=trials[0].run.seed,
        limit=limit,
        samples=reference.samples,
        trials=tuned,
        chosen=best.settings,
        work=_work([root / trial.run.key for trial in trials]),
    )


def _validated(folder: Path) -> Validation:
    """The counts of the best epoch of a run on the validation part."""
    line = best_epoch(read_metrics(RunDir(folder).metrics))
    if line is None:
        raise CheckpointError(f"{folder}: was not validated; tuning needs a split with a validation part")
    return Validation.from_figures(line.model_dump())


def _work(folders: Sequence[Path]) -> float | None:
    """The operations of trainings and of their teachers' forward passes; None where one is not known."""
    total = 0.0
    for folder in folders:
        meta = load_checkpoint(RunDir(folder).best).meta
        work = count_run(folder, meta, beside=folder.parent)  # teachers lie beside the folder of trials
        if work.own is None or work.asked is None:
            return None
        total += work.own + work.asked
    return total


def with_tunings(study: Study, tunings: Mapping[str, Tuning]) -> Study:
    """The study whose tuned rows have the recipes of their choices."""
    tuned = {name: recipe_at(study.updates[name], tuning.chosen) for name, tuning in tunings.items()}
    return replace(study, updates=study.updates | tuned)
