"""How often `adjust` breaks a budget where the epoch, too, was chosen on the validation samples that it tests.

python -m tools.best_epoch_coverage
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np

from mptctl.errors import GateFailed
from mptctl.evaluation.bias.choice import Budget, choose_bias
from mptctl.evaluation.bias.held_out import HeldOut

CLASSES, POOL = 8, 20_000
# Parts of the spread of a logit that are each epoch's own: epochs that are nearly one model, and independent ones.
OWN_PARTS = (0.03, 0.3, 1.0)
BUDGETS = (0.08, 0.12, 0.16)
NEW_CLASSES = (4, 1)


@dataclass(frozen=True)
class Calls:
    """What came of many calls.

    Attributes:
        draws: calls, each with a validation part of its own.
        written: that met the budget on it.
        broken: of these, how many exceed the budget on the pool.
    """

    draws: int
    written: int
    broken: int


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--draws", type=int, default=400)
    parser.add_argument("--samples", type=int, default=600)
    parser.add_argument("--epochs", type=int, default=10)
    given = parser.parse_args()
    say("new classes  own part  budget, %  written  broken  of calls, % (standard error)")
    for new, own in product(NEW_CLASSES, OWN_PARTS):
        epochs = made_up_epochs(given.epochs, own, new)
        for budget in BUDGETS:
            found = count_calls(epochs, Budget(max_nfr=budget), given.samples, given.draws)
            share = found.broken / found.draws
            error = np.sqrt(share * (1 - share) / found.draws)
            say(
                f"{new:>11}  {own:>8.2f}  {100 * budget:>9.0f}  {found.written:>7,}  {found.broken:>6,}  "
                f"{100 * share:>9.2f} ({100 * error:.2f})"
            )
    return 0


def made_up_epochs(epochs: int, own: float, new: int) -> list[HeldOut]:
    """The logits of some epochs over one pool; new classes lead by too much.

    Args:
        epochs: how many.
        own: part of the variance of a logit that is each epoch's own; 1 for independent epochs.
        new: new classes of all `CLASSES`.
    """
    rng = np.random.default_rng(0)
    truth, is_new = rng.integers(0, CLASSES, POOL), np.arange(CLASSES) >= CLASSES - new
    of_old = ~is_new[truth]
    old_right = of_old & (rng.random(POOL) < 0.9)
    signal = 2.5 * (np.arange(CLASSES) == truth[:, None]) + 1.0 * is_new
    common = np.sqrt(1 - own) * rng.normal(size=(POOL, CLASSES))
    return [
        HeldOut(
            logits=signal + common + np.sqrt(own) * rng.normal(size=(POOL, CLASSES)),
            truth=truth, is_new=is_new, of_old=of_old, old_right=old_right,
        )
        for _ in range(epochs)
    ]  # fmt: skip


def count_calls(epochs: Sequence[HeldOut], budget: Budget, samples: int, draws: int) -> Calls:
    """Draw validation parts; take the epoch with the fewest errors on each, adjust it there, look at it on the pool."""
    assert budget.max_nfr is not None
    nothing = np.zeros(CLASSES)
    wrong = np.array([epoch.wrong(nothing) for epoch in epochs])
    written = broken = 0
    for draw in range(draws):
        rows = np.random.default_rng(draw).choice(POOL, samples)
        best = epochs[int(wrong[:, rows].sum(axis=1).argmin())]
        try:
            choice = choose_bias(best.rows(rows), budget)
        except GateFailed:
            continue
        written += 1
        broken += best.counts(choice.biases)[1] > budget.max_nfr * best.n_old
    return Calls(draws, written, broken)


def say(line: str) -> None:
    print(line, flush=True)  # noqa: T201


if __name__ == "__main__":
    sys.exit(main())
