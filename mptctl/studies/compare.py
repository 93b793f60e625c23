"""Comparison of updates over seeds: means, the best, differences by noise alone, and costs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mptctl.errors import UsageError
from mptctl.evaluation.flips import flip_rates
from mptctl.evaluation.paired_bootstrap import (
    LEVEL,
    RESAMPLES,
    FloatArray,
    interval_of_mean,
    observed_rates,
    redraw_rates,
)
from mptctl.names import Part, Session
from mptctl.studies.answers_file import RunAnswers
from mptctl.studies.comparison import (
    BIAS_ROW,
    COLUMNS,
    By,
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
    missing_seeds,
    refuse_other_splits,
    refuse_unknown_row,
    row_of_name,
    several_old_models,
)
from mptctl.studies.post_hoc_bias import Shift, at_test_error_of, shift_updates
from mptctl.studies.updates import Update, find_updates

# Figures of an old model's calibration that have a mean over seeds.
CALIBRATION_FIELDS = ("accuracy", "ece", "aece", "temperature", "scaled_ece", "scaled_aece")


class RedrawnRates(NamedTuple):
    """Rates of one update, as they are and on samples that are drawn again."""

    observed: Mapping[str, float]
    draws: Mapping[str, FloatArray]


# By split and seed.
RedrawnGroup = Mapping[tuple[str, int], RedrawnRates]


def compare_runs(
    folders: Sequence[Path],
    session: Session = Session(),
    *,
    old: Path | None = None,
    by: By = "seed",
    part: Part = "test",
    equal_error: str | None = None,
    shift: Shift = "all",
    against: str | None = None,
) -> Comparison:
    """Compares runs: a row for each method, over its seeds.

    Args:
        folders: a study's folder, run roots, or run folders.
        session: where models compute that did not answer yet.
        old: the old model of all of them, a folder, or a name beside each run; default: what each run
            records.
        by: what rows are grouped over: seeds, where all splits must be alike but for theirs; the same with
            each old model apart; or each split apart.
        part: on which updates are compared: test, or val, where something is to be chosen.
        equal_error: the row at whose validation error all are compared, each with a bias of its own; None: as
            they are, beside the plain update at the error of the best MPT row.
        shift: to that row all updates, or the plain one alone.
        against: the row that every other one's difference is to; None: no differences.

    Raises:
        CheckpointError: no update there, an old model that is missing, or runs of other splits.
        UsageError: one old model for all updates, and each apart; no row of that name.
        DataError, NonFiniteError: see `run_answers`; or there is no validation part.
    """
    if old is not None and by == "old":
        raise UsageError(
            "--old: with --by old each update is held against the old models beside it; give one"
        )
    found = find_updates(folders, old, session, by_old=by == "old", part=part)
    if by != "split" and found.updates:
        refuse_other_splits(found.updates)
    updates, again = count_once(found.updates, by)
    groups = group_updates(updates, by)
    names = [group.name for group in groups]
    if equal_error is not None:
        refuse_unknown_row("--equal-error", equal_error, names)
    all_moved = equal_error is not None and shift == "all"
    if against is not None:
        refuse_unknown_row("--against", against, names if all_moved else [*names, BIAS_ROW])
    notes = [*found.notes, *again, *several_old_models(groups)]
    held_against = {}
    rows: list[ComparisonRow] = []
    seeds = 1
    for section in dict.fromkeys(group.section for group in groups):
        shifted = shift_updates([g for g in groups if g.section == section], equal_error, shift)
        inside = shifted.groups
        notes += [*missing_seeds(inside), *_other_units(inside), *shifted.notes]
        if not inside:
            continue
        if shifted.rival is not None:
            held_against[section or "all"] = shifted.rival
        seeds = max(seeds, *(len(group.updates) for group in inside))
        base = None if against is None else row_of_name("--against", inside, against)
        if against is not None and base is None:
            notes.append(f"{section or 'the table'}: no differences: it has no row {against}")
        rows += _rows(inside, by, base, moved=all_moved)
    return Comparison(
        rows=rows,
        by=by,
        part=part,
        equal_error=equal_error if all_moved else None,
        against=against,
        old=_old_models(groups, by),
        calibration=_calibration(found.old_models) if by == "old" and part == "test" else None,
        noise=Noise(
            over="seeds and samples" if seeds > 1 else "samples",
            resamples=RESAMPLES,
            level=LEVEL,
        ),
        bias_held_against=held_against,
        notes=notes,
    )


def _rows(groups: Sequence[Group], by: By, base: Group | None, *, moved: bool) -> list[ComparisonRow]:
    """Rows of one section of the table, with the best of each column and what is within noise of it.

    Args:
        groups: of that section.
        by: what rows are grouped over.
        base: the one that differences are to; None: no differences.
        moved: whether each has a bias of its own.
    """
    plain = _plain_of(groups)
    rows = [_row(group, plain, by, moved) for group in groups]
    redrawn = redraw_groups(groups)
    best: dict[int, list[Column]] = {i: [] for i in range(len(rows))}
    noise: dict[int, list[Column]] = {i: [] for i in range(len(rows))}
    most = max(len(group.updates) for group in groups)
    for column in COLUMNS:
        mean_of_row = {i: getattr(row, column).mean for i, row in enumerate(rows)}
        means = {i: mean for i, mean in mean_of_row.items() if mean is not None}
        if not means:
            continue
        # A row of fewer seeds is not held against rows of more, unless there is none of all seeds.
        whole = [i for i in means if len(groups[i].updates) == most] or list(means)
        top = min(whole, key=lambda i: means[i])
        for i, mean in means.items():
            if i in whole and mean == means[top]:
                best[i].append(column)
                continue
            apart = difference_to(redrawn[i], redrawn[top])
            if apart is not None and is_noise(apart[column]):
                noise[i].append(column)
    differences: list[dict[Column, Difference] | None] = [None] * len(groups)
    if base is not None:
        to = next(i for i, group in enumerate(groups) if group is base)
        differences = [
            None if i == to else difference_to(redrawn[i], redrawn[to]) for i in range(len(groups))
        ]
    return [
        row.model_copy(
            update={"best": best[i], "within_noise_of_best": noise[i], "differences": differences[i]}
        )
        for i, row in enumerate(rows)
    ]


def _plain_of(groups: Sequence[Group]) -> dict[tuple[str, int], Update]:
    """The plain update of each seed, whose own work is what costs are counted in."""
    plain: dict[tuple[str, int], Update] = {}
    for group in groups:
        for update in group.updates if group.is_plain else ():
            plain.setdefault(update.replicate, update)
    return plain


def _other_units(groups: Sequence[Group]) -> list[str]:
    """A note on rows whose costs are not counted in plain trainings, since none of their seed is there."""
    plain = _plain_of(groups)
    names = [group.name for group in groups if any(u.replicate not in plain for u in group.updates)]
    if not names:
        return []
    return [
        f"cost 1 of {', '.join(names)} is the row's own training without teachers, since no plain training "
        "(no-treatment) of its seed is among these runs; name that too"
    ]


def _row(group: Group, plain: dict[tuple[str, int], Update], by: By, moved: bool) -> ComparisonRow:
    updates = group.updates
    counts = [update.counts for update in updates]
    rates = [flip_rates(c, 0) for c in counts]
    costs = [_cost(u.run, plain.get(u.replicate)) for u in updates]
    at_test_error = [at_test_error_of(u) for u in updates] if moved and updates[0].part == "test" else None
    parts = Cost(
        own=_mean([c.own for c in costs]),
        asked=_mean([c.asked for c in costs]),
        taught=_mean([c.taught for c in costs]),
    )
    whole = [parts.own, parts.asked, parts.taught]
    return ComparisonRow(
        name=group.name,
        method=group.method,
        split=None if by == "old" else group.section,
        old=group.section if by == "old" else None,
        seeds=[u.run.recipe.runtime.seed for u in updates],
        runs=[str(u.run.folder) for u in updates],
        nfr=spread([r.nfr.value for r in rates]),
        rel_nfr=spread([r.rel_nfr.value for r in rates]),
        er_old=spread([c.new_wrong / c.total for c in counts]),
        er_all=spread([count / of for count, of in _errors(updates).values]),
        lost=spread([r.lost.value for r in rates]),
        pfr=spread([r.pfr.value for r in rates]),
        nfi=spread([r.nfi.value for r in rates]),
        flips=_flips(updates),
        errors=_errors(updates),
        cost=None if None in whole else float(sum(part for part in whole if part is not None)),
        cost_parts=parts,
        parameters=updates[0].run.head.work.parameters,
        best=[],
        within_noise_of_best=[],
        bias=spread([u.bias for u in updates]) if moved or group.method == BIAS_ROW else None,
        flips_at_test_error=None if at_test_error is None else _flips(at_test_error),
        errors_at_test_error=None if at_test_error is None else _errors(at_test_error),
    )


def _flips(updates: Sequence[Update]) -> Counted:
    return Counted(values=[(u.counts.negative_flips, u.counts.total) for u in updates])


def _errors(updates: Sequence[Update]) -> Counted:
    return Counted(values=[(int((~u.right).sum()), len(u.right)) for u in updates])


def spread(values: Sequence[float | None]) -> Spread:
    """Mean and standard deviation (n - 1) of values over seeds."""
    known = [value for value in values if value is not None]
    whole = len(known) == len(values)
    return Spread(
        mean=float(np.mean(known)) if whole else None,
        std=float(np.std(known, ddof=1)) if whole and len(known) > 1 else None,
        values=list(values),
    )


def _cost(run: RunAnswers, plain: Update | None) -> Cost:
    """Work of a run by that of the plain run of its seed, or else of its own model without teachers."""
    work = run.head.work
    unit = work.own if plain is None else plain.run.head.work.own

    def part(amount: float | None) -> float | None:
        return None if amount is None or not unit else amount / unit

    return Cost(own=part(work.own), asked=part(work.asked), taught=part(work.taught))


def _mean(values: Sequence[float | None]) -> float | None:
    return spread(values).mean


def _old_models(groups: Sequence[Group], by: By) -> list[OldModels]:
    """The old models of each section, with their errors, one a split."""
    sections: dict[str | None, dict[tuple[str, str], float | None]] = {}
    for group in groups:
        for update in group.updates:
            key = (update.run.head.split_fingerprint, update.old.head.digest)
            wrong = update.counts.total - update.counts.old_right
            sections.setdefault(group.section, {})[key] = wrong / update.counts.total
    return [
        OldModels(
            split=None if by == "old" else section,
            old=section if by == "old" else None,
            er_old=spread(list(errors.values())),
        )
        for section, errors in sections.items()
    ]


def _calibration(old_models: Mapping[str, Sequence[RunAnswers]]) -> list[CalibrationRow]:
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
    """Rates of a section's rows, as they are and on samples drawn again, the same for all rows."""
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
    """By rate, what one group has more than another; None where they have no seed in common."""
    shared = [replicate for replicate in one if replicate in other]
    if not shared:
        return None
    return {column: _difference([(one[each], other[each]) for each in shared], column) for column in COLUMNS}


def is_noise(difference: Difference) -> bool:
    """Says if the interval of a difference contains zero, or there is none."""
    return difference.low is None or difference.high is None or difference.low <= 0 <= difference.high


def _difference(pairs: Sequence[tuple[RedrawnRates, RedrawnRates]], column: Column) -> Difference:
    values = [one.observed[column] - other.observed[column] for one, other in pairs]
    draws = np.mean([one.draws[column] - other.draws[column] for one, other in pairs], axis=0)
    mean = float(np.mean(values))
    low, high = interval_of_mean(values, draws) or (None, None)
    return Difference(mean=mean if math.isfinite(mean) else None, low=low, high=high, seeds=len(pairs))
