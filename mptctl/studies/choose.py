"""Choose an update on the validation part: shifted to one error on one half of it, counted on the other."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np

from mptctl.errors import DataError, UsageError
from mptctl.evaluation.paired_bootstrap import (
    BLOCK,
    LEVEL,
    SEEDS,
    BoolArray,
    FloatArray,
    IntArray,
    Weights,
    draw_weights,
    rates_of_draws,
)
from mptctl.evaluation.rows_apart import RowRate, SeedRate, least_differences
from mptctl.names import Part, Role, Session
from mptctl.studies.answers_file import RunAnswers
from mptctl.studies.compare import cost_of_updates
from mptctl.studies.comparison import Choice, ChoiceRow, Counted, Estimate, Noise
from mptctl.studies.groups import Group, count_once, group_updates, plain_by_replicate
from mptctl.studies.post_hoc_bias import shift_to_error_of
from mptctl.studies.run_folders import find_by_digest
from mptctl.studies.updates import Update, find_updates

REDRAWS = 1_000
# Costs within this share of each other count as equal.
SAME_COST = 0.02
# Divides the validation samples into halves; fixed, so that the same runs give the same choice.
HALVES_SEED = 4


class BothWays(NamedTuple):
    """A training shifted by one half of its validation samples and counted, as part ``test``, on the other.

    Attributes:
        first: shifted by the first half.
        second: shifted by the second half.
    """

    first: Update
    second: Update


def choose_update(
    folders: Sequence[Path], session: Session = Session(), *, old: Path | None = None
) -> Choice:
    """Choose among the updates in some folders by the validation part alone, see `choose_among`.

    Args:
        folders: a study's folder, run roots, or run folders.
        session: where models compute whose predictions are not kept yet.
        old: the old model of all updates; None: what each run records.

    Raises:
        UsageError, DataError: see `choose_among` and `find_updates`.
        CheckpointError, NonFiniteError: see `find_updates`; or splits differ.
    """
    found = find_updates(folders, old, session, part="val")
    if not found.updates:
        raise UsageError("--choose: these are old models; name their updates")
    updates, notes_on_copies = count_once(found.updates)
    return choose_among(updates, [*found.notes, *notes_on_copies])


def choose_among(updates: Sequence[Update], notes: Sequence[str] = ()) -> Choice:
    """Choose among updates by their validation parts alone, by the rule of `choose_row`.

    Every update is shifted to the error of one row on one half of the validation samples, and counted on the
    other half, both ways. Only seeds that all rows have count.

    Args:
        updates: each counted once.
        notes: on how they were found.

    Raises:
        UsageError: there are fewer than two rows, no seed that all rows have, or no plain update.
        DataError: a half of the validation part has no sample of an old class.
    """
    all_groups = group_updates(updates)
    plain = plain_by_replicate(all_groups)
    common = set.intersection(*(group.seeds for group in all_groups))
    groups = [
        group._replace(updates=[update for update in group.updates if update.replicate in common])
        for group in all_groups
    ]
    _refuse_no_choice(groups, plain)
    target = max(groups, key=_val_error)
    rows = [_shift_both_ways(group, target) for group in groups]
    # (R, S, 2) counts and denominators over both halves.
    flips = np.array([[[way.flips for way in ways] for ways in row] for row in rows]).sum(axis=2)
    errors = np.array([[[way.errors for way in ways] for ways in row] for row in rows]).sum(axis=2)
    nfr = flips[..., 0] / flips[..., 1]
    draws = redraw_flips(rows)
    costs = [cost_of_updates(group.updates, plain).total for group in groups]
    known_costs = np.array([np.inf if cost is None else cost for cost in costs])
    seeds = [update.replicate for update in groups[0].updates]
    rates: list[RowRate] = [
        {seed: SeedRate(nfr[i, s], draws[i, s]) for s, seed in enumerate(seeds)} for i in range(len(rows))
    ]
    mean = nfr.mean(axis=1)
    least = least_differences(rates)
    near = are_near(mean, least)
    beaten = are_beaten(mean, known_costs)
    chosen = groups[choose_row(mean, known_costs, least)]
    return Choice(
        chosen=chosen.name,
        fewest_flips=groups[fewest_flips(mean, known_costs)].name,
        commands=_commands(chosen, _val_error(target) - _val_error(chosen)),
        seeds=[seed for _, seed in seeds],
        error_of=target.name,
        rows=[
            ChoiceRow(
                name=group.name,
                method=group.method,
                init=group.init,
                runs=[str(update.run.folder) for update in group.updates],
                nfr=mean[i],
                flips=Counted(values=flips[i].tolist()),
                errors=Counted(values=errors[i].tolist()),
                cost=costs[i],
                within_noise=bool(near[i]),
                is_beaten=bool(beaten[i]),
            )
            for i, group in enumerate(groups)
        ],
        estimate=estimate_choice(mean, draws.mean(axis=1), known_costs, least),
        noise=Noise(
            over="seeds and samples" if len(seeds) > 1 else "samples", resamples=REDRAWS, level=LEVEL
        ),
        notes=[*notes, *_notes_on(len(updates), groups, rows, target)],
    )


def choose_row(flips: FloatArray, cost: FloatArray, least: FloatArray) -> int:
    """Choose the cheapest of R rows that is within noise of the fewest flips.

    A row that another beats (`are_beaten`) is never chosen. Of rows whose costs are within `SAME_COST` of the
    cheapest, the one with the fewest flips is chosen.

    >>> least = 5.0 * (1 - np.eye(3))
    >>> choose_row(np.array([30.0, 22.0, 20.0]), np.array([1.0, 2.0, 2.7]), least)
    1

    Args:
        flips: (R,) of each row, at one error.
        cost: (R,) of each row; infinite where it is not known.
        least: (R, R) the difference in flips beyond which two rows are apart.
    """
    left = are_near(flips, least) & ~are_beaten(flips, cost)
    cheapest = np.flatnonzero(left & (cost <= cost[left].min() * (1 + SAME_COST)))
    return int(cheapest[fewest_flips(flips[cheapest], cost[cheapest])])


def fewest_flips(flips: FloatArray, cost: FloatArray) -> int:
    """The row with the fewest flips; of several such the cheapest."""
    return int(np.lexsort((cost, flips))[0])


def are_near(flips: FloatArray, least: FloatArray) -> BoolArray:
    """(R,) whether a row is within noise of the fewest flips; of several rows with these, of any of them."""
    have_fewest = flips == flips.min()
    return np.asarray(flips - flips.min() <= least[have_fewest].max(axis=0))


def are_beaten(flips: FloatArray, cost: FloatArray) -> BoolArray:
    """(R,) whether another row has no more flips at no more cost, and less of one of them."""
    no_more = (flips[:, None] <= flips) & (cost[:, None] <= cost)
    less = (flips[:, None] < flips) | (cost[:, None] < cost)
    return np.asarray((no_more & less).any(axis=0))


def estimate_choice(flips: FloatArray, draws: FloatArray, cost: FloatArray, least: FloatArray) -> Estimate:
    """Estimate the flips of the chosen row on other samples, corrected for its choice.

    Each redraw of the samples chooses again. The correction is the mean, over redraws, of the flips that the
    row chosen there has on all samples minus those in that redraw (Efron and Tibshirani, An introduction to
    the bootstrap, 1993, chapter 10). Redraws are centred on each row's own flips, so that only the choice is
    corrected.

    Args:
        flips, cost, least: as for `choose_row`.
        draws: (R, D) flips of each row in D redraws, the same for all rows; NaN where not defined.
    """
    draws = draws[:, np.isfinite(draws).all(axis=0)]
    redrawn = flips[:, None] + draws - draws.mean(axis=1, keepdims=True)
    again = np.array([choose_row(each, cost, least) for each in redrawn.T])
    correction = float(np.mean(flips[again] - redrawn[again, np.arange(len(again))]))
    chosen = choose_row(flips, cost, least)
    return Estimate(
        nfr=float(flips[chosen]) + correction,
        correction=correction,
        chosen_again=float(np.mean(again == chosen)),
    )


def _refuse_no_choice(groups: Sequence[Group], plain: Mapping[tuple[str, int], Update]) -> None:
    """Refuse rows among which none can be chosen.

    Raises:
        UsageError: there is one row, the rows have no seed in common, or no plain update.
    """
    names = ", ".join(group.name for group in groups)
    if len(groups) == 1:
        raise UsageError(
            f"--choose: there is one row, {names}; name two or more (mptctl study which trains five)"
        )
    if not groups[0].updates:
        raise UsageError(f"--choose: no seed has all rows ({names}); leave out those that lack seeds")
    if not groups[0].seeds <= plain.keys():
        raise UsageError(
            f"--choose: none of these rows is a plain update, in whose trainings costs are counted "
            f"({names}); name one too (train-baseline no-treatment)"
        )


def _val_error(group: Group) -> float:
    """The error of a row on the validation part as trained, mean over seeds, a fraction."""
    return float(np.mean([update.run.val_error for update in group.updates]))


def divide(n: int) -> tuple[IntArray, IntArray]:
    """Divide n samples into two halves at random, always the same ones: their rows."""
    shuffled = np.random.default_rng([HALVES_SEED, n]).permutation(n)
    return shuffled[: n // 2], shuffled[n // 2 :]


def _shift_both_ways(group: Group, target: Group) -> list[BothWays]:
    """Shift the updates of a row to the error of another row on one half, to be counted on the other half."""
    first, second = (shift_to_error_of(_halve(target, i), _halve(group, i), -np.inf) for i in (0, 1))
    return list(map(BothWays, first, second))


def _halve(group: Group, choosing: int) -> Group:
    """A row whose part ``val`` is one half of its validation samples, and ``test`` the other.

    Raises:
        DataError: there is no sample of an old class to count.
    """

    def half_of(run: RunAnswers) -> RunAnswers:
        halves = divide(len(run.val))
        return replace(run, val=run.val.rows(halves[choosing]), test=run.val.rows(halves[1 - choosing]))

    updates = [Update(half_of(update.run), half_of(update.old)) for update in group.updates]
    for update in updates:
        if not update.of_old.any():
            raise DataError(
                f"--choose: {update.run.folder} has too few validation samples of old classes for two "
                "halves; hold out more (split --val-fraction), and train again"
            )
    return group._replace(updates=updates)


def redraw_flips(rows: Sequence[Sequence[BothWays]]) -> FloatArray:
    """Count the flips of R rows and S seeds in D redraws of their samples, shifts chosen again in each.

    All rows see the same redraws. A half is drawn alike where it chooses shifts and where it is counted.

    Returns:
        (R, S, D) negative flip rates over both halves; NaN where no sample of an old class was drawn.
    """
    redrawn = np.zeros((len(rows), len(rows[0]), REDRAWS))
    for s, ways in enumerate(rows[0]):
        n = len(ways.first.run.val) + len(ways.first.run.test)
        rng = np.random.default_rng([SEEDS["val"], n])
        block = max(1, BLOCK // n)
        for start in range(0, REDRAWS, block):
            size = min(block, REDRAWS - start)
            first, second = (draw_weights(rng, size, len(half)) for half in divide(n))
            for i, row in enumerate(rows):
                flips = _redrawn_flips(row[s].first, first, second)
                flips += _redrawn_flips(row[s].second, second, first)
                redrawn[i, s, start : start + size] = flips
        redrawn[:, s] /= ways.first.flips[1] + ways.second.flips[1]
    return redrawn


def _redrawn_flips(update: Update, chooses: Weights, counts: Weights) -> FloatArray:
    """The flips of an update in each draw of the half that chooses its shift and the half that counts."""
    weights: dict[tuple[Part, int], Weights] = {
        ("val", chooses.shape[1]): chooses,
        ("test", counts.shape[1]): counts,
    }
    return rates_of_draws(update.counted, weights)["nfr"] * update.flips[1]


def _notes_on(
    found: int, groups: Sequence[Group], rows: Sequence[Sequence[BothWays]], target: Group
) -> list[str]:
    """Notes on trainings that take no part in the choice, and on rows that no shift brings to the error."""
    left_out = found - sum(len(group.updates) for group in groups)
    notes = [f"{left_out} runs are left out: not all rows have their seeds"] if left_out else []
    missed = []
    for group, row in zip(groups, rows, strict=True):
        if not all(ways.first.is_reached and ways.second.is_reached for ways in row):
            missed.append(group.name)
    if missed:
        notes.append(
            f"no shift brings {', '.join(missed)} to the error of {target.name} on every half, where the "
            "lowest error counts"
        )
    return notes


def _commands(group: Group, increase: float) -> list[str]:
    """The commands that train the update of a row by its recipe, and shift it to the common error.

    Args:
        group: the row.
        increase: the common error minus its own, a fraction.
    """
    run = group.updates[0].run
    method = run.recipe.method.name
    name = shlex.quote(run.folder.name)
    recipe = f"--recipe {shlex.quote(str(run.folder / 'recipe.yaml'))}"
    train = "train-mpt" if method in ("mpt-kl", "mpt-lm") else f"train-baseline {method}"
    refs = [teacher for teacher in run.head.work.teachers if teacher != Role.OLD.value]
    lines = []
    if refs:
        # The reference may have other settings than the update; where it is gone, those of the update serve.
        reference = find_by_digest(run.head.teachers[refs[0]], run.folder) or run.folder
        command = "train-ref" if len(refs) == 1 else f"train-ensemble --size {len(refs)}"
        lines.append(f"{command} --recipe {shlex.quote(str(reference / 'recipe.yaml'))}")
    ensemble = " --ref ensemble" if len(refs) > 1 else ""
    lines.append(f"{train} {recipe}{ensemble} --name {name}")
    if run.head.has_new_classes:
        lines.append(f"adjust {name} --old old --max-er-increase {100 * increase:.2f}")
    return [f"mptctl {line}" for line in lines]
