"""Compares updates over seeds: means, the best, what differs from it by noise alone, and what each one costs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mptctl.data.split_file import SplitRequest
from mptctl.errors import CheckpointError
from mptctl.evaluation.bias_sweep import sweep_bias
from mptctl.evaluation.flips import flip_rates
from mptctl.evaluation.paired_bootstrap import (
    LEVEL,
    RESAMPLES,
    FloatArray,
    differences,
    is_noise,
    joint_cells,
)
from mptctl.names import METHOD_NAMES
from mptctl.recipe import may_change_between_starts
from mptctl.studies.answers import Progress, RunAnswers
from mptctl.studies.comparison import (
    BIAS_ROW,
    COLUMNS,
    By,
    Column,
    Comparison,
    ComparisonRow,
    Cost,
    Counted,
    Noise,
    OldModels,
    Spread,
)
from mptctl.studies.updates import Update, find_updates

PLAIN = "no-treatment"


class Group(NamedTuple):
    """Runs that differ in their seed alone."""

    name: str
    method: str
    split: str | None
    updates: list[Update]


def compare_runs(
    folders: Sequence[Path],
    *,
    old: Path | None = None,
    by: By = "seed",
    device: str = "auto",
    progress: Progress | None = None,
) -> Comparison:
    """One row for each method, over its seeds.

    Args:
        folders: a study's folder, run roots, or run folders.
        old: the old model of all of them, a folder, or a name beside each run; default: what each run records.
        by: what rows are grouped over: seeds, where all splits must be alike but for theirs; or each split apart.
        device: where models compute that did not answer yet.
        progress: called with (what is under way, pictures done, pictures in all).

    Raises:
        CheckpointError: no update there, an old model that is missing, or runs of other splits.
        UsageError, DataError, NonFiniteError: see `run_answers`.
    """
    found = find_updates(folders, old, device=device, progress=progress)
    if by == "seed":
        refuse_other_splits(found.updates)
    groups = group_updates(found.updates, by)
    notes, held_against = list(found.notes), {}
    rows: list[ComparisonRow] = []
    for split in dict.fromkeys(group.split for group in groups):
        inside = [group for group in groups if group.split == split]
        notes += _missing_seeds(inside)
        rival, target, more = take_bias_off(inside)
        notes += more
        if rival is not None and target is not None:
            held_against[split or "all"] = target
            at = next(i for i, group in enumerate(inside) if group.method == PLAIN)
            inside.insert(at + 1, rival)
        rows += _rows(inside)
    return Comparison(
        rows=rows,
        by=by,
        old=_old_models(groups),
        noise=Noise(
            over="seeds and samples" if any(len(g.updates) > 1 for g in groups) else "samples",
            resamples=RESAMPLES,
            level=LEVEL,
        ),
        bias_held_against=held_against,
        notes=notes,
    )


def refuse_other_splits(updates: Sequence[Update]) -> None:
    """Refuse runs whose splits differ in more than their seed.

    Raises:
        CheckpointError: names two of them and what differs.
    """
    first = updates[0].run
    seen: dict[int, RunAnswers] = {}
    for update in updates:
        run = update.run
        mine, theirs = _split_key(run), _split_key(first)
        twin = seen.setdefault(run.head.request.seed, run)
        differs = [f"{key} {theirs[key]} or {mine[key]}" for key in mine if mine[key] != theirs[key]]
        if not differs and run.head.split_fingerprint != twin.head.split_fingerprint:
            first, differs = twin, [f"other pictures or classes with split seed {run.head.request.seed}"]
        if differs:
            raise CheckpointError(
                f"{run.folder}: is of another split than {first.folder} ({'; '.join(differs)}); compare runs of one "
                "split, or group them with --by split"
            )


def group_updates(updates: Sequence[Update], by: By) -> list[Group]:
    """Put together what differs in its seed alone, in the order of the table of methods.

    Settings are the whole recipe but `runtime`, and how many teachers there are. Two runs of the same settings, split
    and seed, as with two references, are told apart by their names.
    """
    alike: dict[tuple[str | None, str], list[Update]] = {}
    for update in updates:
        split = split_name(update.run) if by == "split" else None
        alike.setdefault((split, _settings(update.run)), []).append(update)
    groups = []
    for (split, _), members in alike.items():
        named: dict[str, list[Update]] = {}
        twice = len({m.replicate for m in members}) < len(members)
        for member in members:
            named.setdefault(member.run.folder.name if twice else "", []).append(member)
        for several in named.values():
            method = several[0].run.recipe.method.name
            names = {m.run.folder.name for m in several}
            several.sort(key=lambda m: (m.run.recipe.runtime.seed, m.run.head.request.seed))
            groups.append(Group(names.pop() if len(names) == 1 else method, method, split, several))
    order = {name: i for i, name in enumerate(METHOD_NAMES)}
    return sorted(groups, key=lambda g: (g.split or "", order[g.method], g.name))


def take_bias_off(groups: Sequence[Group]) -> tuple[Group | None, str | None, list[str]]:
    """The free rival: a constant taken off the new classes' logits of the plain update, chosen on validation.

    For each seed it is the one with the fewest validation flips among those whose validation error is no higher than
    that of the best MPT row, which is the one with the fewest validation flips; where none reaches that error, the
    one with the lowest.

    Args:
        groups: of one split.

    Returns:
        The group, the name of the row that it is held against, and notes; None where one of them cannot be had.
    """
    plain = next((group for group in groups if group.method == PLAIN), None)
    rivals = [group for group in groups if group.method.startswith("mpt")]
    if plain is None or not rivals:
        return None, None, []
    # A row of fewer seeds is no measure for the others.
    shared = [
        len({u.replicate for u in group.updates} & {u.replicate for u in plain.updates}) for group in rivals
    ]
    rivals = [group for group, seeds in zip(rivals, shared, strict=True) if seeds == max(shared)]
    if not all(len(update.run.val) for group in (plain, *rivals) for update in group.updates):
        return None, None, [f"no row “{BIAS_ROW}”: there is no validation part to choose a bias on"]
    best = min(rivals, key=lambda group: float(np.mean([_val_nfr(update) for update in group.updates])))
    errors = {update.replicate: float(np.mean(~update.run.val.right())) for update in best.updates}
    biased, missed = [], 0
    for update in plain.updates:
        if update.replicate in errors:
            bias, reached = _choose_bias(update, errors[update.replicate])
            biased.append(Update(update.run, update.old, bias))
            missed += not reached
    if not biased:
        return None, None, [f"no row “{BIAS_ROW}”: {plain.name} and {best.name} have no seed in common"]
    notes = [
        f"in {missed} of {len(biased)} seeds no bias brings the plain update to the validation error of {best.name}; "
        "there the one with the lowest error is taken"
    ]
    return Group(BIAS_ROW, BIAS_ROW, plain.split, biased), best.name, notes if missed else []


def _choose_bias(update: Update, error: float) -> tuple[float, bool]:
    """The bias for a plain update, and whether it reaches a validation error."""
    part, old_right = update.run.val, update.old.val.right()
    curve = sweep_bias(
        "plain",
        "baseline",
        part.scores(),
        part.label.astype(np.int64),
        part.label < update.run.head.num_old,
        old_right,
        error,
    )
    if curve is None:
        return 0.0, float(np.mean(~part.right())) <= error
    if curve.at_new_error is not None:
        return curve.at_new_error.bias, True
    return min(curve.points, key=lambda point: point.er_all).bias, False


def _val_nfr(update: Update) -> float:
    part = update.run.val
    of_old = part.label < update.run.head.num_old
    return float(np.mean((update.old.val.right() & ~part.right())[of_old]))


def _rows(groups: Sequence[Group]) -> list[ComparisonRow]:
    """Rows of one split, with the best of each column and what is within noise of it."""
    plain = {u.replicate: u for group in groups if group.method == PLAIN for u in group.updates}
    rows = [_row(group, plain) for group in groups]
    best: dict[int, list[Column]] = {i: [] for i in range(len(rows))}
    noise: dict[int, list[Column]] = {i: [] for i in range(len(rows))}
    most = max(len(group.updates) for group in groups)
    for column in COLUMNS:
        means = {i: m for i, row in enumerate(rows) if (m := getattr(row, column).mean) is not None}
        if not means:
            continue
        # A row of fewer seeds is not held against rows of more, unless there is none of all seeds.
        whole = [i for i in means if len(groups[i].updates) == most] or list(means)
        top = min(whole, key=lambda i: means[i])
        for i, mean in means.items():
            if i in whole and mean == means[top]:
                best[i].append(column)
            elif (draws := _draws(groups[i], groups[top])) is not None and is_noise(draws[column]):
                noise[i].append(column)
    return [
        row.model_copy(update={"best": best[i], "within_noise_of_best": noise[i]})
        for i, row in enumerate(rows)
    ]


def _draws(one: Group, other: Group) -> dict[str, FloatArray] | None:
    """Bootstrap of the difference over the seeds that two groups have in common; None where there is none."""
    theirs = {update.replicate: update for update in other.updates}
    cells = [
        joint_cells(u.run.test_of_old, u.old_right, u.right, theirs[u.replicate].right)
        for u in one.updates
        if u.replicate in theirs
    ]
    return differences(cells) if cells else None


def _row(group: Group, plain: dict[tuple[str, int], Update]) -> ComparisonRow:
    updates = group.updates
    counts = [update.counts for update in updates]
    rates = [flip_rates(c, 0) for c in counts]
    wrong = [(int((~u.right).sum()), len(u.right)) for u in updates]
    costs = [_cost(u.run, plain.get(u.replicate)) for u in updates]
    parts = Cost(
        own=_mean([c.own for c in costs]),
        asked=_mean([c.asked for c in costs]),
        taught=_mean([c.taught for c in costs]),
    )
    whole = [parts.own, parts.asked, parts.taught]
    return ComparisonRow(
        name=group.name,
        method=group.method,
        split=group.split,
        seeds=[u.run.recipe.runtime.seed for u in updates],
        runs=[str(u.run.folder) for u in updates],
        nfr=spread([r.nfr.value for r in rates]),
        rel_nfr=spread([r.rel_nfr.value for r in rates]),
        er_old=spread([c.new_wrong / c.total for c in counts]),
        er_all=spread([count / of for count, of in wrong]),
        lost=spread([r.lost.value for r in rates]),
        pfr=spread([r.pfr.value for r in rates]),
        nfi=spread([r.nfi.value for r in rates]),
        flips=Counted(values=[(c.negative_flips, c.total) for c in counts]),
        errors=Counted(values=wrong),
        cost=None if None in whole else float(sum(part for part in whole if part is not None)),
        cost_parts=parts,
        parameters=updates[0].run.head.work.parameters,
        best=[],
        within_noise_of_best=[],
        bias=spread([u.bias for u in updates]) if group.method == BIAS_ROW else None,
    )


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
    """Work of a run by that of the plain run of its seed, or where there is none, of its own model without teachers."""
    work = run.head.work
    unit = work.own if plain is None else plain.run.head.work.own

    def part(amount: float | None) -> float | None:
        return None if amount is None or not unit else amount / unit

    return Cost(own=part(work.own), asked=part(work.asked), taught=part(work.taught))


def _mean(values: Sequence[float | None]) -> float | None:
    return spread(values).mean


def _old_models(groups: Sequence[Group]) -> list[OldModels]:
    found: dict[str | None, dict[tuple[str, str], float | None]] = {}
    for group in groups:
        for update in group.updates:
            key = (update.run.head.split_fingerprint, update.old.head.digest)
            wrong = update.counts.total - update.counts.old_right
            found.setdefault(group.split, {})[key] = wrong / update.counts.total
    return [OldModels(split=split, er_old=spread(list(errors.values()))) for split, errors in found.items()]


def _missing_seeds(groups: Sequence[Group]) -> list[str]:
    """Which rows are of fewer seeds than others."""
    every = {update.replicate for group in groups for update in group.updates}
    short = [f"{group.name} {len(group.updates)}" for group in groups if len(group.updates) < len(every)]
    if not short:
        return []
    return [f"of {len(every)} seeds some rows have fewer, and are not called the best: {', '.join(short)}"]


def split_name(run: RunAnswers) -> str:
    """What a split is called where rows of several stand in one table."""
    head = run.head
    return f"{head.request.source}, {head.num_old} of {len(head.class_names)} classes old"


def _split_key(run: RunAnswers) -> dict[str, object]:
    """All of a split but its seed."""
    head, request = run.head, run.head.request
    key = {
        name: getattr(request, name)
        for name in SplitRequest.model_fields
        if name not in ("seed", "data_root")
    }
    return key | {"old classes": head.num_old, "classes": len(head.class_names)}


def _settings(run: RunAnswers) -> str:
    recipe = run.recipe.model_dump(mode="json", exclude={"runtime"})
    free = may_change_between_starts()
    recipe["data"] = {key: value for key, value in recipe["data"].items() if f"data.{key}" not in free}
    return json.dumps([recipe, len(run.head.teachers)], sort_keys=True)
