"""Comparison of updates over seeds: mean rates, the best rows, differences within noise, and costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mptctl.evaluation.flips import flip_rates
from mptctl.evaluation.paired_bootstrap import (
    LEVEL,
    RESAMPLES,
    FloatArray,
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
    Spread,
)
from mptctl.studies.groups import (
    Group,
    count_once,
    group_updates,
    notes_on_missing_seeds,
    notes_on_old_models,
    notes_on_units_of_cost,
    plain_by_replicate,
    refuse_other_splits,
    refuse_unknown_row,
    row_of_name,
)
from mptctl.studies.post_hoc_bias import Shift, shift_to_test_error, shift_updates
from mptctl.studies.updates import Update, find_updates

# Figures of an old model's calibration that have a mean over seeds.
CALIBRATION_FIELDS = ("accuracy", "ece", "aece", "temperature", "scaled_ece", "scaled_aece")


class RedrawnRates(NamedTuple):
    """Rates of one update, by their names.

    Attributes:
        observed: on the samples themselves.
        draws: (RESAMPLES,) on samples that are drawn again, of the paired bootstrap.
    """

    observed: Mapping[str, float]
    draws: Mapping[str, FloatArray]


# The updates of a row, by split and seed.
RedrawnGroup = Mapping[tuple[str, int], RedrawnRates]


def compare_runs(
    folders: Sequence[Path],
    session: Session = Session(),
    *,
    old: Path | None = None,
    part: Part = "test",
    equal_error: str | None = None,
    shift: Shift = "all",
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
        shift: with ``equal_error``: shift all updates, or the plain one alone, in a row of its own.
        against: the row to which every other row's difference is given; None: no differences.

    Raises:
        CheckpointError: there is no update, an old model is missing, or splits differ.
        UsageError: no row has the given name.
        DataError: see `run_answers`; or there is no validation part for ``equal_error``.
        NonFiniteError: see `run_answers`.
    """
    found = find_updates(folders, old, session, part=part)
    if found.updates:
        refuse_other_splits(found.updates)
    updates, notes_on_copies = count_once(found.updates)
    unshifted = group_updates(updates)
    names = [group.name for group in unshifted]
    if equal_error is not None:
        refuse_unknown_row("--equal-error", equal_error, names)
    all_shifted = equal_error is not None and shift == "all"
    if against is not None:
        refuse_unknown_row("--against", against, names if all_shifted else [*names, BIAS_ROW])
    shifted = shift_updates(unshifted, equal_error, shift)
    groups = shifted.groups
    notes = [*found.notes, *notes_on_copies, *notes_on_old_models(unshifted), *notes_on_missing_seeds(groups)]
    notes += notes_on_units_of_cost(groups, unshifted) + shifted.notes
    base = None if against is None else row_of_name(groups, against)
    if against is not None and base is None:
        notes.append(f"the table: no differences: it has no row {against}")
    most_seeds = max((len(group.updates) for group in groups), default=1)
    return Comparison(
        rows=_build_rows(groups, plain_by_replicate(unshifted), base, all_shifted=all_shifted),
        part=part,
        equal_error=equal_error if all_shifted else None,
        against=against,
        old=_summarise_old_models(unshifted),
        calibration=_calibration_rows(found.old_models) if found.old_models else None,
        noise=Noise(
            over="seeds and samples" if most_seeds > 1 else "samples",
            resamples=RESAMPLES,
            level=LEVEL,
        ),
        bias_held_against={} if shifted.rival is None else {"all": shifted.rival},
        notes=notes,
    )


def _build_rows(
    groups: Sequence[Group],
    plain: dict[tuple[str, int], Update],
    base: Group | None,
    *,
    all_shifted: bool,
) -> list[ComparisonRow]:
    """The rows of the table, with the best of each column and the differences to one row.

    Args:
        groups: the rows.
        plain: the plain update of each split and seed, in units of which costs are given.
        base: the row to which differences are given; None: no differences.
        all_shifted: every update is shifted to the error of one row.
    """
    if not groups:
        return []
    rows = [_build_row(group, plain, all_shifted) for group in groups]
    redrawn = redraw_groups(groups)
    marks = _find_best(rows, groups, redrawn)
    differences: list[dict[Column, Difference] | None] = [None] * len(groups)
    if base is not None:
        base_index = next(i for i, group in enumerate(groups) if group is base)
        for i, rates in enumerate(redrawn):
            if i != base_index:
                differences[i] = difference_to(rates, redrawn[base_index])
    return [
        row.model_copy(
            update={
                "best": marks[i].best,
                "within_noise_of_best": marks[i].within_noise,
                "differences": differences[i],
            }
        )
        for i, row in enumerate(rows)
    ]


class _Marks(NamedTuple):
    """The columns in which a row is the best, and those in which it is within noise of the best."""

    best: list[Column]
    within_noise: list[Column]


def _find_best(
    rows: Sequence[ComparisonRow], groups: Sequence[Group], redrawn: Sequence[RedrawnGroup]
) -> list[_Marks]:
    """Find, for each row, the columns in which it is the best or within noise of the best.

    A row without a mark differs from the best by more than noise. This level holds for all rows of a column
    together, and for a best row that was chosen by the same numbers (`rows_apart`).

    Only rows with the most seeds can be the best; if none of them has a mean, every row with a mean can.
    """
    marks = [_Marks([], []) for _ in rows]
    most_seeds = max(len(group.updates) for group in groups)
    for column in COLUMNS:
        means = {i: getattr(row, column).mean for i, row in enumerate(rows)}
        means = {i: mean for i, mean in means.items() if mean is not None}
        if not means:
            continue
        with_most_seeds = [i for i in means if len(groups[i].updates) == most_seeds]
        candidates = with_most_seeds or list(means)
        best = min(candidates, key=lambda i: means[i])
        apart = rows_apart([_rate_of(group, column) for group in redrawn], best)
        for i, mean in means.items():
            if i in candidates and mean == means[best]:
                marks[i].best.append(column)
                continue
            if apart[i] is False:
                marks[i].within_noise.append(column)
    return marks


def _rate_of(group: RedrawnGroup, column: Column) -> RowRate:
    """One rate of a row's updates."""
    return {each: SeedRate(rates.observed[column], rates.draws[column]) for each, rates in group.items()}


def _build_row(group: Group, plain: dict[tuple[str, int], Update], all_shifted: bool) -> ComparisonRow:
    """The row of a group, but for the best columns and differences, which follow from all rows together.

    Args:
        group: the updates of the row.
        plain: the plain update of each split and seed.
        all_shifted: every update is shifted to the error of one row.
    """
    updates = group.updates
    counts = [update.counts for update in updates]
    rates = [flip_rates(count, 0) for count in counts]
    costs = [_relative_cost(update.run, plain.get(update.replicate)) for update in updates]
    at_test_error, seeds_above = None, None
    if all_shifted and updates[0].part == "test":
        shifts = [shift_to_test_error(update) for update in updates]
        at_test_error = [shift.update for shift in shifts]
        seeds_above = sum(not shift.is_reached for shift in shifts)
    cost_parts = Cost(
        own=spread([cost.own for cost in costs]).mean,
        asked=spread([cost.asked for cost in costs]).mean,
        taught=spread([cost.taught for cost in costs]).mean,
    )
    known_parts = [part for part in (cost_parts.own, cost_parts.asked, cost_parts.taught) if part is not None]
    return ComparisonRow(
        name=group.name,
        method=group.method,
        init=group.init,
        seeds=[update.run.recipe.runtime.seed for update in updates],
        runs=[str(update.run.folder) for update in updates],
        nfr=spread([rate.nfr.value for rate in rates]),
        rel_nfr=spread([rate.rel_nfr.value for rate in rates]),
        er_old=spread([count.new_wrong / count.total for count in counts]),
        er_all=spread([wrong / total for wrong, total in _errors(updates).values]),
        lost=spread([rate.lost.value for rate in rates]),
        pfr=spread([rate.pfr.value for rate in rates]),
        nfi=spread([rate.nfi.value for rate in rates]),
        flips=_flips(updates),
        errors=_errors(updates),
        cost=float(sum(known_parts)) if len(known_parts) == 3 else None,
        cost_parts=cost_parts,
        parameters=updates[0].run.head.work.parameters,
        best=[],
        within_noise_of_best=[],
        bias=spread([u.bias for u in updates]) if all_shifted or group.method == BIAS_ROW else None,
        flips_at_test_error=None if at_test_error is None else _flips(at_test_error),
        errors_at_test_error=None if at_test_error is None else _errors(at_test_error),
        seeds_above_test_error=seeds_above,
    )


def _flips(updates: Sequence[Update]) -> Counted:
    """Negative flips and samples of old classes, of each update."""
    return Counted(values=[(u.counts.negative_flips, u.counts.total) for u in updates])


def _errors(updates: Sequence[Update]) -> Counted:
    """Wrong predictions and samples of all classes, of each update."""
    return Counted(values=[(int((~u.right).sum()), len(u.right)) for u in updates])


def spread(values: Sequence[float | None]) -> Spread:
    """Mean and standard deviation (n - 1) of values over seeds; both None where one of the values is."""
    known = [value for value in values if value is not None]
    all_known = len(known) == len(values)
    return Spread(
        mean=float(np.mean(known)) if all_known else None,
        std=float(np.std(known, ddof=1)) if all_known and len(known) > 1 else None,
        values=list(values),
    )


def _relative_cost(run: RunAnswers, plain: Update | None) -> Cost:
    """The work of a run, in units of the plain training of its seed.

    Where `plain` is None, the unit is the run's own training without teachers. A part is None where its work
    or the unit is not known.
    """
    work = run.head.work
    unit = work.own if plain is None else plain.run.head.work.own

    def in_units(amount: float | None) -> float | None:
        return None if amount is None or not unit else amount / unit

    return Cost(own=in_units(work.own), asked=in_units(work.asked), taught=in_units(work.taught))


def _summarise_old_models(groups: Sequence[Group]) -> list[OldModels]:
    """The error on old classes of each old model, one for each split; no entry without updates."""
    errors: dict[tuple[str, str], float | None] = {}
    for update in [update for group in groups for update in group.updates]:
        wrong = update.counts.total - update.counts.old_right
        key = (update.run.head.split_fingerprint, update.old.head.digest)
        errors[key] = wrong / update.counts.total
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


def redraw_groups(groups: Sequence[Group]) -> list[RedrawnGroup]:
    """The rates of each row, on the samples themselves and on draws, the same for all rows."""
    updates = [update for group in groups for update in group.updates]
    draws = iter(redraw_rates([update.counted for update in updates]))
    return [
        {
            update.replicate: RedrawnRates(observed_rates(update.counted), next(draws))
            for update in group.updates
        }
        for group in groups
    ]


def difference_to(one: RedrawnGroup, other: RedrawnGroup) -> dict[Column, Difference] | None:
    """The rates of one row minus those of another, over common seeds; None where they have none in common."""
    shared = [replicate for replicate in one if replicate in other]
    if not shared:
        return None
    return {
        column: _mean_difference([(one[each], other[each]) for each in shared], column) for column in COLUMNS
    }


def _mean_difference(pairs: Sequence[tuple[RedrawnRates, RedrawnRates]], column: Column) -> Difference:
    """The mean difference of one rate over pairs of updates of the same seed, with its interval."""
    values = [one.observed[column] - other.observed[column] for one, other in pairs]
    draws = np.stack([one.draws[column] - other.draws[column] for one, other in pairs])
    mean = float(np.mean(values))
    low, high = interval_of_mean(values, draws) or (None, None)
    return Difference(
        mean=mean if math.isfinite(mean) else None,
        low=low,
        high=high,
        seeds=len(pairs),
        values=[value if math.isfinite(value) else None for value in values],
    )
