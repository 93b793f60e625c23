"""Count how often differences of updates over seeds are covered, and how often one of several equal rows looks worse.

python -m tests.simulations.rows_over_seeds
"""

from __future__ import annotations

import sys

import numpy as np
from numpy.typing import NDArray

from mptctl.evaluation.paired_bootstrap import draw_weights, interval_of_mean
from mptctl.evaluation.rows_apart import RowRate, SeedRate, rows_apart
from tests.simulations.table import Table, percent

# Differences and tables that are simulated, and draws of the bootstrap in each (`compare` has 2,000).
DIFFERENCES, TABLES, DRAWS = 2000, 400, 400
# Samples of a simulated test set, and the part of wrong predictions that is meant.
SAMPLES, ERROR = 1000, 0.05


def main() -> int:
    """Print how often intervals cover by seeds and noise, then how often one of several equal rows looks worse."""
    print("a difference over seeds: the 95 % interval covers the true one, % (standard error 0.5)")
    print("noise of retraining in the mean, where that of sampling is 1 (the last: 1 to 0)")
    table = Table("seeds", "0", "0.5", "1", "2", "only")
    for seeds in (3, 5, 10, 20):
        noises = ((1, 0), (1, 0.5), (1, 1), (1, 2), (0, 1))
        table.row(seeds, *(percent(covered(seeds, *each), 1) for each in noises))
    print("\nequal rows: at least one is told apart from the best, % of tables (standard error at 5 %: 1.1)")
    print("noise of retraining, where the score of a sample has 1: none; 0.1; 0.1 and 0.3 by turns")
    table = Table("rows", "seeds", "none", "0.1", "0.1, 0.3")
    for rows, seeds in ((8, 1), (12, 1), (8, 2), (8, 3), (12, 3)):
        settings = ((0.0, 1.0), (0.1, 1.0), (0.1, 3.0)) if seeds > 1 else ((0.0, 1.0),)
        shares = [percent(told_apart(rows, seeds, *setting), 1) for setting in settings]
        table.row(rows, seeds, *shares, *[""] * (3 - len(shares)))
    return 0


def covered(seeds: int, sampling: float, retraining: float, tables: int = DIFFERENCES) -> float:
    """The share of simulated differences whose interval contains the true one, which is zero.

    Args:
        seeds: trainings of each of the two updates, on one test set.
        sampling: standard deviation of the noise that all seeds have in common, since they share test samples.
        retraining: that of the noise in the mean that each seed has for itself.
        tables: how many differences.
    """
    rng = np.random.default_rng([seeds, int(10 * sampling), int(10 * retraining)])
    count = 0
    for _ in range(tables):
        values = sampling * rng.normal() + retraining * seeds**0.5 * rng.normal(size=seeds)
        draws = values[:, None] + sampling * rng.normal(size=DRAWS)
        ends = interval_of_mean(values.tolist(), draws)
        count += ends[0] <= 0 <= ends[1]
    return count / tables


def told_apart(rows: int, seeds: int, retraining: float, unlike: float, tables: int = TABLES) -> float:
    """The share of tables of equal rows in which at least one row is told apart from the one that looks best.

    Args:
        rows: of the table; over all trainings and samples, their rates are equal.
        seeds: trainings of each row, on one test set.
        retraining: standard deviation of a shift that a training has on all samples, where a sample's own
            score has one of 1.
        unlike: how many times larger that is in every second row.
        tables: how many.
    """
    rng = np.random.default_rng([rows, seeds, int(100 * retraining), int(unlike)])
    weights = draw_weights(rng, DRAWS, SAMPLES)
    return sum(any(marks_of(rng, rows, seeds, retraining, unlike, weights)) for _ in range(tables)) / tables


def marks_of(
    rng: np.random.Generator,
    rows: int,
    seeds: int,
    retraining: float,
    unlike: float,
    weights: NDArray[np.floating],
) -> list[bool]:
    """For each row of one simulated table, whether it is told apart from the best.

    A prediction is wrong where its score is high. The score has three equal parts: of the sample, of the
    sample in this row, and of the sample in this training.
    """
    score = rng.normal(size=(SAMPLES, 1, 1)) + rng.normal(size=(SAMPLES, rows, 1))
    score = (score + rng.normal(size=(SAMPLES, rows, seeds))) / 3**0.5
    spread = np.where(np.arange(rows) % 2, unlike * retraining, retraining)
    shift = spread[:, None] * rng.normal(size=(rows, seeds))
    # The threshold at which the mean over all shifts is `ERROR`, so that rows of unlike spread are equal.
    threshold = 1.6448536269514722 * np.sqrt(1 + spread**2)[:, None]
    wrong = (score + shift > threshold).astype(np.float32)
    draws = (weights @ wrong.reshape(SAMPLES, -1) / SAMPLES).reshape(-1, rows, seeds)
    observed = wrong.mean(axis=0)
    table: list[RowRate] = [
        {seed: SeedRate(float(observed[row, seed]), draws[:, row, seed]) for seed in range(seeds)}
        for row in range(rows)
    ]
    best = int(observed.mean(axis=1).argmin())
    return [bool(apart) for apart in rows_apart(table, best)]


if __name__ == "__main__":
    sys.exit(main())
