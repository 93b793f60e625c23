"""Count how often a budget that `adjust` promises is kept, over validation parts drawn from a large pool.

python -m tests.simulations.budget_coverage runs/equal-cost --seeds 1 2 3 --updates no-treatment mpt-kl-k0.9
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from mptctl.data.characters import CLASS_NAMES, TRAIN_PER_CLASS, draw_characters
from mptctl.data.holding_out import CHARACTERS_VAL_FRACTION
from mptctl.errors import GateFailed
from mptctl.evaluation.bias.choice import Budget, choose_bias
from mptctl.evaluation.bias.validation_samples import ValidationSamples
from mptctl.inference.loaded import load_run
from mptctl.names import Session
from tests.simulations.table import Table, percent

# Seeds of the pool, which no study has; it holds 29,760 pictures of old classes.
POOL_SEEDS = (9001, 9002)
# Pictures of a class in a validation part, as the source holds out by default.
PER_CLASS = round(TRAIN_PER_CLASS * CHARACTERS_VAL_FRACTION)


@dataclass(frozen=True)
class Coverage:
    """Counts over many validation parts.

    Attributes:
        kept: validation parts whose choice keeps the budget on the pool.
        met: validation parts on which a choice met the budget.
        draws: validation parts.
        nfr: mean NFR on the pool of the choices that met the budget, a fraction; nan without one.
        error: mean error on all classes on the pool of these choices, a fraction; nan without one.
    """

    kept: int
    met: int
    draws: int
    nfr: float
    error: float


def main() -> int:
    """Print a line for each seed, update and budget: how often it was met and kept, and the rates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, help="run root of a study of characters, a folder a seed")
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--updates", nargs="+", required=True)
    parser.add_argument("--plain", default="no-treatment", help="the update whose NFR budgets are parts of")
    parser.add_argument("--parts", type=float, nargs="+", default=[0.5, 0.7, 0.85])
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--draws", type=int, default=1000)
    given = parser.parse_args()
    first, second = (draw_characters(seed) for seed in POOL_SEEDS)
    pictures, labels = np.concatenate([first[0], second[0]]), np.concatenate([first[1], second[1]])
    table = Table(
        "seed", "update            ", "limit %", "kept", "of met", "of draws", "pool NFR %", "error %",
        "as it is: NFR %", "error %",
    )  # fmt: skip
    for seed in given.seeds:
        pools = _predict_pool(given.runs / str(seed), {given.plain, *given.updates}, pictures, labels)
        plain_nfr = _rates(pools[given.plain], 0.0).nfr
        for name, part in product(given.updates, given.parts):
            budget = Budget(max_nfr=part * plain_nfr, confidence=given.confidence)
            found = measure_coverage(pools[name], budget, PER_CLASS, given.draws)
            rates = found.nfr, found.error, *_rates(pools[name], 0.0)
            table.row(
                seed,
                name,
                percent(part * plain_nfr),
                found.kept,
                found.met,
                found.draws,
                *map(percent, rates),
            )
    return 0


def _predict_pool(
    root: Path, updates: Collection[str], pictures: NDArray[np.uint8], labels: NDArray[np.integer[Any]]
) -> dict[str, ValidationSamples]:
    """Predict the pictures of the pool with the old model and each update; samples by name of update.

    Args:
        root: run root of a seed, with the run `old`.
        updates: names of runs there.
        pictures: (N, H, W, 3).
        labels: (N,) places in `CLASS_NAMES`.
    """
    old = load_run("old", Session(root, "cpu")).predict(pictures)
    old_right = np.array(CLASS_NAMES)[labels] == old.answers
    is_old_class = np.isin(CLASS_NAMES, old.classes)
    pools = {}
    for name in updates:
        predictions = load_run(name, Session(root, "cpu")).predict(pictures)
        assert predictions.classes == CLASS_NAMES, f"{name}: of other classes, or in another order"
        pools[name] = ValidationSamples(
            logits=predictions.logits.astype(np.float64), truth=labels.astype(np.int64), is_new=~is_old_class,
            of_old=is_old_class[labels], old_right=old_right,
        )  # fmt: skip
    return pools


def measure_coverage(pool: ValidationSamples, budget: Budget, per_class: int, draws: int) -> Coverage:
    """Choose biases on many validation parts, and measure each choice on the pool that they were drawn from.

    Args:
        pool: samples whose NFR counts as the true one.
        budget: a limit on NFR.
        per_class: samples of each class in a validation part, drawn with replacement.
        draws: number of validation parts; each has its own seed, so that the same call gives the same result.
    """
    with ProcessPoolExecutor() as processes:
        choose = partial(_choose_and_measure, pool, budget, per_class)
        rates_of_choices = list(processes.map(choose, range(draws), chunksize=25))
    met = np.array([rates for rates in rates_of_choices if rates is not None])
    assert budget.max_nfr is not None
    if not len(met):
        return Coverage(0, 0, draws, float("nan"), float("nan"))
    kept = int((met[:, 0] <= budget.max_nfr).sum())
    mean_nfr, mean_error = met.mean(axis=0).tolist()
    return Coverage(kept, len(met), draws, mean_nfr, mean_error)


class _Rates(NamedTuple):
    """NFR and error on all classes, as fractions."""

    nfr: float
    error: float


def _choose_and_measure(pool: ValidationSamples, budget: Budget, per_class: int, seed: int) -> _Rates | None:
    """Choose biases on a validation part drawn from the pool; their rates on the pool, None if none meets it."""
    rng = np.random.default_rng(seed)
    rows_by_class = [np.flatnonzero(pool.truth == column) for column in np.unique(pool.truth)]
    rows = np.concatenate([rng.choice(of_class, per_class) for of_class in rows_by_class])
    try:
        choice = choose_bias(pool.rows(rows), budget)
    except GateFailed:
        return None
    return _rates(pool, choice.bias)


def _rates(pool: ValidationSamples, bias: float) -> _Rates:
    """The rates on the pool once a bias is subtracted from the new classes' logits."""
    errors, flips = pool.counts(bias)
    return _Rates(flips / pool.n_old, errors / len(pool))


if __name__ == "__main__":
    sys.exit(main())
