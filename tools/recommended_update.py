"""Applies the rule of docs/research/old-weights.md: which update to recommend, from kept results of long trainings.

    python -m tools.recommended_update RESULTS [--error-of mpt-kl]

Prints, for each data set, the flips of each candidate at one error, then their sums, what is within noise (~), and the
two recommendations.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm, t

from mptctl.evaluation.paired_bootstrap import LEVEL, redraw_rates
from mptctl.studies.groups import Group, find_row, group_updates
from mptctl.studies.post_hoc_bias import shift_to_error_of
from mptctl.studies.training_cost import RunWork
from mptctl.studies.updates import find_updates

FloatArray = NDArray[np.float64]
# Candidates in the order of the protocol, with their training costs: 1, or that of MPT.
COST_ONE = ("plain", "plain-old")
AT_MPT_COST = (
    "plain-longer",
    "plain-longer-old",
    "mpt-kl",
    "mpt-kl-old",
    "mpt-lm",
    "pct-kl-longer-old",
    "noref-longer-old",
)
CANDIDATES = (*COST_ONE, *AT_MPT_COST)
# Costs within this share are one cost.
MOST_COST, SAME_COST = 2.7, 0.02
MOST_ERROR_ABOVE_PLAIN = 0.005
# One seed says nothing of what another training would change.
LEAST_SEEDS = 2


@dataclass(frozen=True)
class DataSet:
    """One study at convergence: its seeds, and each candidate's row; of two rows, validation chooses the k."""

    study: str
    seeds: tuple[int, ...]
    rows: Mapping[str, tuple[str, ...]]


def data_set(study: str, seeds: tuple[int, ...], *names: str) -> DataSet:
    """A data set whose rows are named in the order of the candidates; several names of a row with commas between."""
    return DataSet(study, seeds, {c: tuple(n.split(",")) for c, n in zip(CANDIDATES, names, strict=True)})


DATA_SETS = (
    data_set(
        "convergence", (1, 2, 4, 5), "no-treatment", "no-treatment-old", "no-treatment-400", "no-treatment-400-old",
        "mpt-kl", "mpt-kl-old", "mpt-lm", "pct-kl-300-old", "mpt-kl-noref-300",
    ),
    data_set(
        "cifar10-small", (3, 4, 5), "no-treatment", "no-treatment-old", "no-treatment-267", "no-treatment-267-old",
        "mpt-kl-k1.5", "mpt-kl-old", "mpt-lm-k1.5", "pct-kl-200-old", "mpt-kl-noref-200",
    ),
    data_set(
        "finetune", (4, 5, 6), "no-treatment", "no-treatment-old", "no-treatment-53", "no-treatment-53-old",
        "mpt-kl", "mpt-kl-old", "mpt-lm", "pct-kl-40-old", "mpt-kl-noref-40-old",
    ),
    data_set(
        "tiny-imagenet-100-convergence", (1, 2), "no-treatment", "no-treatment-old", "no-treatment-267",
        "no-treatment-267-old", "mpt-kl-k1.5,mpt-kl-k4", "mpt-kl-old-k1.5,mpt-kl-old-k4", "mpt-lm-k1.5,mpt-lm-k4",
        "pct-kl-200-old", "mpt-kl-noref-200-k1.5,mpt-kl-noref-200-k4",
    ),
)  # fmt: skip


@dataclass(frozen=True)
class Flips:
    """Flips of the candidates on one data set, shifted to one error.

    Attributes:
        study: name of the study.
        by_seed: (R, S) flips of R candidates in S seeds.
        draws: (R, D) mean flips over seeds in D draws of the paired bootstrap.
        cost: (R,) training costs.
        notes: on rows that could not be shifted so far; these count at their lowest error.
    """

    study: str
    by_seed: FloatArray
    draws: FloatArray
    cost: FloatArray
    notes: list[str]


@dataclass(frozen=True)
class Sums:
    """Sums over data sets: (R,) flips, differences to the fewest, their largest differences by noise, and costs."""

    flips: FloatArray
    above_fewest: FloatArray
    noise: FloatArray
    cost: FloatArray


def whole_seeds(data: DataSet, root: Path) -> list[int]:
    """The seeds of which every row is there."""
    folders = {seed: root / data.study / str(seed) for seed in data.seeds}
    names = [name for alternatives in data.rows.values() for name in alternatives]
    return [
        seed for seed, folder in folders.items() if all((folder / n / "answers.npz").is_file() for n in names)
    ]


def candidates_of(data: DataSet, root: Path, seeds: Sequence[int]) -> tuple[list[Group], FloatArray]:
    """The row of each candidate, and its training cost; of rows with two k, the one that validation chooses.

    Of two k it is the one with fewest validation flips at an error that is allowed; else the first.
    """
    names = [name for alternatives in data.rows.values() for name in alternatives]
    folders = [root / data.study / str(seed) / name for seed in seeds for name in names]
    groups = group_updates(find_updates(folders, None).updates)
    rows = {name: find_row(data.study, name, groups) for name in names}
    plain = rows[data.rows["plain"][0]]
    most_error = val_error(plain) + MOST_ERROR_ABOVE_PLAIN
    chosen = []
    for candidate in CANDIDATES:
        of_each_k = [rows[name] for name in data.rows[candidate]]
        allowed = [row for row in of_each_k if val_error(row) <= most_error]
        chosen.append(min(allowed, key=_val_flips) if allowed else of_each_k[0])
    work = [_mean([_work(each.run.head.work) for each in group.updates]) for group in chosen]
    unit = _mean([each.run.head.work.own or 0.0 for each in plain.updates])
    return chosen, np.array(work) / unit


def _work(work: RunWork) -> float:
    """The operations of a training and of its teachers; ValueError where they are not known."""
    if work.own is None or work.asked is None or work.taught is None:
        raise ValueError("a training whose cost is not known")
    return work.own + work.asked + work.taught


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values))


def val_error(group: Group) -> float:
    """Validation error over all classes, as trained, as a mean over seeds."""
    return _mean([update.run.val_error for update in group.updates])


def _val_flips(group: Group) -> int:
    return sum(replace(update, part="val").counts.negative_flips for update in group.updates)


def flips_at_one_error(data: DataSet, root: Path, seeds: Sequence[int], error_of: str | None) -> Flips:
    """Shift the candidates of a data set to one validation error, and count their flips on the test part.

    Args:
        data: the data set.
        root: folder of all results.
        seeds: those to count.
        error_of: the candidate whose error it is; None: the one that errs most on validation.
    """
    rows, cost = candidates_of(data, root, seeds)
    target = max(rows, key=val_error) if error_of is None else rows[CANDIDATES.index(error_of)]
    by_seed, draws = [], []
    notes = [f"at the validation error of {target.name}"]
    for group in rows:
        updates = shift_to_error_of(target, group, -np.inf)
        missed = sum(not update.is_reached for update in updates)
        if missed:
            notes.append(f"{group.name}: counted at its lowest error in {missed} of {len(updates)} seeds")
        drawn = redraw_rates([update.counted for update in updates])
        by_seed.append([float(update.counts.negative_flips) for update in updates])
        totals = [update.counts.total for update in updates]
        draws.append(np.mean([rate["nfr"] * n for rate, n in zip(drawn, totals, strict=True)], axis=0))
    return Flips(data.study, np.array(by_seed), np.array(draws), cost, notes)


def add_up(sets: Sequence[Flips]) -> Sums:
    """Add the flips of the data sets, with simultaneous intervals of the differences to the fewest."""
    flips = np.sum([each.by_seed.mean(axis=1) for each in sets], axis=0)
    best = int(flips.argmin())
    draws = np.sum([each.draws - each.draws[best] for each in sets], axis=0)
    seed_variance = np.zeros(len(flips))
    for each in sets:
        differences = each.by_seed - each.by_seed[best]
        seed_variance += differences.var(axis=1, ddof=1) / differences.shape[1]
    others = np.arange(len(flips)) != best
    spread = draws.std(axis=1, ddof=1)
    standardised = np.abs(draws - draws.mean(axis=1, keepdims=True))[others] / spread[others, None]
    quantile = float(np.quantile(standardised.max(axis=0), LEVEL))
    freedom = sum(each.by_seed.shape[1] - 1 for each in sets)
    two_sided = (1 + LEVEL) / 2
    factor = quantile * t.ppf(two_sided, freedom) / norm.ppf(two_sided)
    noise = factor * np.sqrt(spread**2 + seed_variance)
    return Sums(flips, flips - flips[best], noise, np.max([each.cost for each in sets], axis=0))


def recommend(sets: Sequence[Flips], most_cost: float) -> str:
    """The cheapest candidate that is within noise of the fewest flips, among those of at most a cost."""
    affordable = [i for i, cost in enumerate(add_up(sets).cost) if cost <= most_cost * (1 + SAME_COST)]
    sums = add_up(
        [
            replace(
                each,
                by_seed=each.by_seed[affordable],
                draws=each.draws[affordable],
                cost=each.cost[affordable],
            )
            for each in sets
        ]
    )
    within = [i for i in range(len(affordable)) if sums.above_fewest[i] <= sums.noise[i]]
    least = min(sums.cost[within])
    cheapest = [i for i in within if sums.cost[i] <= least * (1 + SAME_COST)]
    return CANDIDATES[affordable[min(cheapest, key=lambda i: sums.flips[i])]]


def main() -> int:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("results", type=Path)
    arguments.add_argument(
        "--error-of", choices=CANDIDATES, help="at this candidate's error; decides nothing"
    )
    given = arguments.parse_args()
    sets = []
    for data in DATA_SETS:
        seeds = whole_seeds(data, given.results)
        if len(seeds) < LEAST_SEEDS:
            sys.stdout.write(f"{data.study}: {len(seeds)} seeds with all rows; missing in the sum\n")
            continue
        found = flips_at_one_error(data, given.results, seeds, given.error_of)
        sys.stdout.write(f"{data.study}, seeds {', '.join(map(str, seeds))}: {'; '.join(found.notes)}\n")
        sets.append(found)
    if not sets:
        return 1
    sums = add_up(sets)
    for i, name in enumerate(CANDIDATES):
        parts = "  ".join(f"{each.by_seed[i].mean():8.1f}" for each in sets)
        mark = "~" if sums.above_fewest[i] <= sums.noise[i] else " "
        sys.stdout.write(f"{name:18} {sums.cost[i]:5.2f}  {parts}  {sums.flips[i]:8.1f}{mark}\n")
    for most_cost in (1.0, MOST_COST):
        sys.stdout.write(f"recommended at a cost of at most {most_cost:g}: {recommend(sets, most_cost)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
