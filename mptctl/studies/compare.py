"""Comparison of updates over seeds: mean rates, the best rows, differences within noise, and costs."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from pathlib import Path

import numpy as np

from mptctl.evaluation.paired_bootstrap import (
    LEVEL,
    RESAMPLES,
    interval_of_mean,
    observed_rates,
    redraw_rates,
)
from mptctl.evaluation.rows_apart import RowRate, SeedRate, rows_apart
from mptctl.names import Part, Session
from mptctl.studies.answers_file import RunAnswers
from mptctl.studies.comparison import (
    BIAS_ROW,
    COLUMNS,
    CalibrationRow,
    Column,
    Comparison,
    ComparisonRow,
    Cost,
    Counted,
    Difference,
    Noise,
    OldModels,
    RowTuning,
    Spread,
)
from mptctl.studies.groups import (
    Group,
    count_once,
    find_row,
    group_updates,
    notes_on_missing_seeds,
    notes_on_plugins,
    plain_by_replicate,
    refuse_unknown_row,
)
from mptctl.studies.post_hoc_bias import add_shifted_plain, at_equal_error
from mptctl.studies.training_cost import RunWork
from mptctl.studies.tuning.record import Tuning, read_tuning
from mptctl.studies.updates import Update, find_updates

# Figures of an old model's calibration that have a mean over seeds.
CALIBRATION_FIELDS = ("accuracy", "ece", "aece", "temperature", "scaled_ece", "scaled_aece")
# A row's rates, each by split and seed.
RedrawnRow = Mapping[Column, dict[Hashable, SeedRate]]
# The table of a comparison: of each update and measure a number, None where it is not defined.
MEASURES: Mapping[str, Callable[[Update], float | None]] = {
    "nfr": lambda update: update.rates.nfr.value,
    "rel_nfr": lambda update: update.rates.rel_nfr.value,
    "er_old": lambda update: update.counts.new_wrong / update.counts.total,
    "er_all": lambda update: update.errors[0] / update.errors[1],
    "lost": lambda update: update.rates.lost.value,
    "pfr": lambda update: update.rates.pfr.value,
    "nfi": lambda update: update.rates.nfi.value,
}


def compare_runs(
    folders: Sequence[Path],
    session: Session = Session(),
    *,
    old: Path | None = None,
    part: Part = "test",
    equal_error: str | None = None,
    against: str | None = None,
) -> Comparison:
    """Compare updates: a row for each method, over its seeds; of old models alone, compare the calibration.

    Args:
        folders: a study's folder, run roots, or run folders.
        session: where models compute whose predictions are not kept yet.
        old: the old model of all updates, as a folder or as a name beside each run; None: what each run
            records.
        part: whose samples are counted: ``test``; or ``val``, to choose a method.
        equal_error: the row to whose validation error updates are shifted; None: only the plain update is
            shifted, in a row of its own, to the best MPT row.
        against: the row to which every other row's difference is given; None: no differences.

    Raises:
        CheckpointError: there is no update, an old model is missing, or splits differ.
        UsageError: no row has the given name.
        DataError: see `run_answers`; or there is no validation part for ``equal_error``.
        NonFiniteError: see `run_answers`.
    """
    found = find_updates(folders, old, session, part=part)
    updates, notes_on_copies = count_once(found.updates)
    unshifted = group_updates(updates)
    target = None if equal_error is None else find_row("--equal-error", equal_error, unshifted)
    if against is not None:
        own_row = [] if target is not None else [BIAS_ROW]
        refuse_unknown_row("--against", against, [*(group.name for group in unshifted), *own_row])
    shifted = add_shifted_plain(unshifted) if target is None else at_equal_error(unshifted, target)
    groups = shifted.groups
    tunings = {group.name: read_tuning(group.updates[0].run.folder) for group in groups}
    notes = [*found.notes, *notes_on_copies, *notes_on_missing_seeds(groups), *notes_on_plugins(groups)]
    notes += [_note_on_tuning(name, tuning) for name, tuning in tunings.items() if tuning is not None]
    notes += shifted.notes
    if against is not None and all(group.name != against for group in groups):
        notes.append(f"the table: no differences: it has no row {against}")
    most_seeds = max((len(group.updates) for group in groups), default=1)
    plain = plain_by_replicate(unshifted)
    return Comparison(
        rows=_build_rows(groups, plain, tunings, against, all_shifted=target is not None),
        part=part,
        equal_error=equal_error,
        against=against,
        old=_summarise_old_models(unshifted),
        calibration=_calibration_rows(found.old_models) if found.old_models else None,
        noise=Noise(
            over="seeds and samples" if most_seeds > 1 else "samples", resamples=RESAMPLES, level=LEVEL
        ),
        bias_held_against={} if shifted.rival is None else {"all": shifted.rival},
        notes=notes,
    )


def _build_rows(
    groups: Sequence[Group],
    plain: Mapping[tuple[str, int], Update],
    tunings: Mapping[str, Tuning | None],
    against: str | None,
    *,
    all_shifted: bool,
) -> list[ComparisonRow]:
    """The rows of the table, with the best of each column and the differences to one row.

    Args:
        groups: the rows.
        plain: the plain update of each split and seed, in units of which costs are given.
        tunings: of each row, by its name; None where it was not tuned.
        against: name of the row to which differences are given, if it is there; None: no differences.
        all_shifted: every update is shifted to the error of one row.
    """
    if not groups:
        return []
    table = [
        {name: spread([measure(update) for update in group.updates]) for name, measure in MEASURES.items()}
        for group in groups
    ]
    redrawn = _redraw(groups)
    best, near = _find_best(table, groups, redrawn)
    base = next((rates for group, rates in zip(groups, redrawn, strict=True) if group.name == against), None)
    rows = []
    for i, group in enumerate(groups):
        updates = group.updates
        cost = cost_of_updates(updates, plain)
        has_bias = all_shifted or group.method == BIAS_ROW
        differences = None
        if base is not None and group.name != against:
            differences = _differences(redrawn[i], base)
        rows.append(
            ComparisonRow(
                name=group.name,
                method=group.method,
                init=group.init,
                seeds=[update.run.recipe.runtime.seed for update in updates],
                runs=[str(update.run.folder) for update in updates],
                **table[i],
                flips=Counted(values=[update.flips for update in updates]),
                errors=Counted(values=[update.errors for update in updates]),
                cost=cost.total,
                cost_parts=cost,
                parameters=updates[0].run.head.work.parameters,
                tuning=_cost_of_tuning(tunings[group.name], plain.get(updates[0].replicate)),
                best=best[i],
                within_noise_of_best=near[i],
                bias=spread([update.bias for update in updates]) if has_bias else None,
                differences=differences,
            )
        )
    return rows


def _redraw(groups: Sequence[Group]) -> list[RedrawnRow]:
    """The rates of each row, on the samples themselves and on draws, the same for all rows."""
    rows: list[RedrawnRow] = [{column: {} for column in COLUMNS} for _ in groups]
    cells = [(row, update) for row, group in zip(rows, groups, strict=True) for update in group.updates]
    draws = redraw_rates([update.counted for _, update in cells])
    for (row, update), drawn in zip(cells, draws, strict=True):
        observed = observed_rates(update.counted)
        for column in COLUMNS:
            row[column][update.replicate] = SeedRate(observed[column], drawn[column])
    return rows


def _find_best(
    table: Sequence[Mapping[str, Spread]], groups: Sequence[Group], redrawn: Sequence[RedrawnRow]
) -> tuple[list[list[Column]], list[list[Column]]]:
    """Find, for each row, the columns in which it is the best, and those within noise of the best.

    A row without a mark differs from the best by more than noise. This level holds for all rows of a column
    together, and for a best row that was chosen by the same numbers (`rows_apart`).

    Only rows with the most seeds can be the best; if none of them has a mean, every row with a mean can.
    """
    best_in: list[list[Column]] = [[] for _ in groups]
    near_in: list[list[Column]] = [[] for _ in groups]
    most_seeds = max(len(group.updates) for group in groups)
    for column in COLUMNS:
        means = {i: mean for i, row in enumerate(table) if (mean := row[column].mean) is not None}
        candidates = [i for i in means if len(groups[i].updates) == most_seeds] or list(means)
        if not candidates:
            continue
        best = min(candidates, key=lambda i: means[i])
        apart = rows_apart([row[column] for row in redrawn], best)
        for i, mean in means.items():
            if i in candidates and mean == means[best]:
                best_in[i].append(column)
            elif apart[i] is False:
                near_in[i].append(column)
    return best_in, near_in


def spread(values: Sequence[float | None]) -> Spread:
    """Mean and standard deviation (n - 1) of values over seeds; both None where one of the values is."""
    known = [value for value in values if value is not None]
    all_known = len(known) == len(values)
    return Spread(
        mean=float(np.mean(known)) if all_known else None,
        std=float(np.std(known, ddof=1)) if all_known and len(known) > 1 else None,
        values=list(values),
    )


def cost_of_updates(updates: Sequence[Update], plain: Mapping[tuple[str, int], Update]) -> Cost:
    """The work of updates in units of the plain training of their seed, each part as a mean over seeds.

    A part is None where its work or the plain training of a seed is not known.
    """

    def mean(part: Callable[[RunWork], float | None]) -> float | None:
        amounts = [_in_units(part(each.run.head.work), plain.get(each.replicate)) for each in updates]
        return spread(amounts).mean

    return Cost(
        own=mean(lambda work: work.own),
        asked=mean(lambda work: work.asked),
        taught=mean(lambda work: work.taught),
    )


def _in_units(operations: float | None, plain: Update | None) -> float | None:
    """An amount of work in units of a plain training; None where one of both is not known."""
    unit = None if plain is None else plain.run.head.work.own
    return None if operations is None or not unit else operations / unit


def _note_on_tuning(name: str, tuning: Tuning) -> str:
    """A note on a row that its study tuned: what was chosen, out of how many trials, and by what."""
    chosen = ", ".join(f"{key}={value}" for key, value in tuning.chosen.items())
    return (
        f"{name}: {chosen}: chosen among {len(tuning.trials)} trials by the validation part of seed "
        f"{tuning.seed}, {sum(trial.within for trial in tuning.trials)} of them within the limit on the error"
    )


def _cost_of_tuning(tuning: Tuning | None, plain: Update | None) -> RowTuning | None:
    """The tuning of a row, its cost in units of a plain training; None where it was not tuned."""
    if tuning is None:
        return None
    return RowTuning(trials=len(tuning.trials), chosen=tuning.chosen, cost=_in_units(tuning.work, plain))


def _summarise_old_models(groups: Sequence[Group]) -> list[OldModels]:
    """The error on old classes of each old model, one for each split; no entry without updates."""
    updates = [update for group in groups for update in group.updates]
    errors = {
        (update.run.head.split_fingerprint, update.old.head.digest): update.old_error for update in updates
    }
    return [OldModels(er_old=spread(list(errors.values())))] if errors else []


def _calibration_rows(old_models: Mapping[str, Sequence[RunAnswers]]) -> list[CalibrationRow]:
    """A row of calibration for each name of old models, over the runs of that name."""
    return [
        CalibrationRow(
            old=name,
            seeds=[run.head.request.seed for run in runs],
            **{
                field: spread([getattr(run.head.calibration, field) for run in runs])
                for field in CALIBRATION_FIELDS
            },
        )
        for name, runs in old_models.items()
    ]


def _differences(one: RedrawnRow, other: RedrawnRow) -> dict[Column, Difference] | None:
    """The rates of one row minus those of another, over common seeds; None where they have none in common."""
    if not one["nfr"].keys() & other["nfr"].keys():
        return None
    return {column: _mean_difference(one[column], other[column]) for column in COLUMNS}


def _mean_difference(one: RowRate, other: RowRate) -> Difference:
    """The mean difference of one rate over the seeds that two rows have in common, with its interval."""
    shared = [replicate for replicate in one if replicate in other]
    values = [one[each].observed - other[each].observed for each in shared]
    draws = np.stack([one[each].draws - other[each].draws for each in shared])
    mean = float(np.mean(values))
    low, high = interval_of_mean(values, draws) or (None, None)
    return Difference(
        mean=mean if math.isfinite(mean) else None,
        low=low,
        high=high,
        seeds=len(shared),
        values=[value if math.isfinite(value) else None for value in values],
    )
