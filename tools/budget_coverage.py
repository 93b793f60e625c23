"""How often a budget that `adjust` promises holds: many validation parts from one large pool, on which NFR is known.

python -m tools.budget_coverage runs/equal-cost --seeds 1 2 3 --updates no-treatment mpt-kl-k0.9
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mptctl.data.characters import CLASS_NAMES, TRAIN_PER_CLASS, draw_characters
from mptctl.data.holding_out import CHARACTERS_VAL_FRACTION
from mptctl.errors import GateFailed
from mptctl.evaluation.bias.choice import Budget, choose_bias
from mptctl.evaluation.bias.validation_samples import ValidationSamples
from mptctl.inference.loaded import load_run
from mptctl.names import Session

# Two draws of the source hold 29,760 pictures of old classes. No study has these seeds.
POOL_SEEDS = (9001, 9002)
# Pictures of a class that the source holds out by default.
PER_CLASS = round(TRAIN_PER_CLASS * CHARACTERS_VAL_FRACTION)

HEAD = "seed  update            limit %  kept of met  of draws  pool NFR %  error %  as it is: NFR %  error %"


@dataclass(frozen=True)
class Coverage:
    """What came of many validation parts.

    Attributes:
        kept: budgets that were said to be met, and are on the pool.
        met: budgets that were said to be met.
        draws: validation parts.
        nfr: mean NFR on the pool where the budget was met; nan where it never was.
        error: mean error on the pool over all classes, likewise.
    """

    kept: int
    met: int
    draws: int
    nfr: float
    error: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, help="run root of a study of characters, a folder a seed")
    parser.add_argument("--seeds", type=int, nargs="+", required=True)
    parser.add_argument("--updates", nargs="+", required=True)
    parser.add_argument("--plain", default="no-treatment", help="the update whose NFR budgets are parts of")
    parser.add_argument("--parts", type=float, nargs="+", default=[0.5, 0.7, 0.85])
    parser.add_argument("--confidence", type=float, default=0.95)
    parser.add_argument("--draws", type=int, default=1000)
    given = parser.parse_args()
    drawn = [draw_characters(seed) for seed in POOL_SEEDS]
    pictures, labels = (np.concatenate(parts) for parts in list(zip(*drawn, strict=True))[:2])
    print(HEAD)  # noqa: T201
    for seed in given.seeds:
        root = given.runs / str(seed)
        old = load_run("old", Session(root, "cpu")).predict(pictures)
        answered_right = np.array(CLASS_NAMES)[labels] == old.answers
        pools = {}
        for name in {given.plain, *given.updates}:
            answers = load_run(name, Session(root, "cpu")).predict(pictures)
            assert answers.classes == CLASS_NAMES, f"{name}: of other classes, or in another order"
            pools[name] = ValidationSamples(
                logits=answers.logits.astype(np.float64),
                truth=labels.astype(np.int64),
                is_new=~np.isin(CLASS_NAMES, old.classes),
                of_old=np.isin(CLASS_NAMES, old.classes)[labels],
                old_right=answered_right,
            )
        plain_nfr = _rates(pools[given.plain], np.zeros(len(CLASS_NAMES)))[0]
        for name in given.updates:
            nfr, error = _rates(pools[name], np.zeros(len(CLASS_NAMES)))
            for part in given.parts:
                budget = Budget(max_nfr=part * plain_nfr, confidence=given.confidence)
                found = coverage(pools[name], budget, PER_CLASS, given.draws)
                print(  # noqa: T201
                    f"{seed:>4}  {name:<16}  {100 * part * plain_nfr:>7.2f}  {found.kept:>5,} of {found.met:<5,}"
                    f"  {found.draws:>8,}  {100 * found.nfr:>10.2f}  {100 * found.error:>7.2f}"
                    f"  {100 * nfr:>15.2f}  {100 * error:>7.2f}",
                    flush=True,
                )
    return 0


def coverage(pool: ValidationSamples, budget: Budget, per_class: int, draws: int) -> Coverage:
    """Choose a bias on many validation parts, and look at each choice on the pool that they were drawn from.

    Args:
        pool: samples whose NFR counts as the true one.
        budget: a limit on NFR.
        per_class: samples of each class in a validation part, drawn with replacement.
        draws: validation parts; each has a seed of its own, so that the same call gives the same answer.
    """
    with ProcessPoolExecutor() as processes:
        found = list(processes.map(partial(_one, pool, budget, per_class), range(draws), chunksize=25))
    met = np.array([rates for rates in found if rates is not None])
    assert budget.max_nfr is not None
    if not len(met):
        return Coverage(0, 0, draws, float("nan"), float("nan"))
    kept = int((met[:, 0] <= budget.max_nfr).sum())
    return Coverage(kept, len(met), draws, *met.mean(axis=0).tolist())


def _one(pool: ValidationSamples, budget: Budget, per_class: int, seed: int) -> tuple[float, float] | None:
    """NFR and error on the pool of what one validation part chose; None where it found no bias."""
    rng = np.random.default_rng(seed)
    rows = [rng.choice(of_class, per_class) for of_class in _by_class(pool.truth)]
    try:
        choice = choose_bias(pool.rows(np.concatenate(rows)), budget)
    except GateFailed:
        return None
    return _rates(pool, choice.biases)


def _by_class(truth: NDArray[np.int64]) -> Iterator[NDArray[np.intp]]:
    return (np.flatnonzero(truth == column) for column in np.unique(truth))


def _rates(pool: ValidationSamples, biases: NDArray[np.float64]) -> tuple[float, float]:
    errors, flips = pool.counts(biases)
    return flips / pool.n_old, errors / len(pool)


if __name__ == "__main__":
    sys.exit(main())
