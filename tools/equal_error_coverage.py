"""How often the intervals of `compare --equal-error` cover: kept answers as the population, both parts drawn anew.

python -m tools.equal_error_coverage results/cifar10-bf16 --row mpt-kl-k1.5
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mptctl.evaluation.paired_bootstrap import (
    CountedUpdate,
    Weights,
    WrongByBias,
    draw_weights,
    interval_of_mean,
    observed_rates,
    rates_of_draws,
)
from mptctl.names import Part
from mptctl.studies.groups import group_updates
from mptctl.studies.post_hoc_bias import at_equal_error
from mptctl.studies.updates import find_updates

Rows = NDArray[np.int64]


@dataclass(frozen=True)
class Share:
    """A share of redraws; beside it stands its Monte Carlo error, one standard deviation."""

    count: int
    of: int

    @property
    def value(self) -> float:
        """The share."""
        return self.count / self.of

    def __str__(self) -> str:
        error = (self.value * (1 - self.value) / self.of) ** 0.5
        return f"{100 * self.value:6.2f} % ± {100 * error:.2f}"


def main() -> int:
    """Print a line for each row: coverage of its difference to the one, and how often it is told from its equal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, help="kept answers of one seed")
    parser.add_argument("--row", required=True, help="at whose validation error all are compared")
    parser.add_argument("--redraws", type=int, default=2000)
    parser.add_argument("--resamples", type=int, default=400, help="draws of each interval")
    given = parser.parse_args()
    found = find_updates([given.runs], None).updates
    groups = at_equal_error(group_updates(found, "seed"), given.row).groups
    updates = {group.name: group.updates[0].counted for group in groups}
    one = updates.pop(given.row)
    covered = coverage(list(updates.values()), one, given.redraws, given.resamples)
    fixed = coverage(list(updates.values()), one, given.redraws, given.resamples, redraw_choices=False)
    width = max(map(len, updates))
    print(f"{'row':<{width}}  {'covered':<15}  {'biases fixed':<15}  equal rows told apart")  # noqa: T201
    for place, (name, update) in enumerate(updates.items()):
        apart = told_apart(update, one, given.redraws, given.resamples)
        print(f"{name:<{width}}  {covered[place]}  {fixed[place]}  {apart}", flush=True)  # noqa: T201
    return 0


def coverage(
    updates: Sequence[CountedUpdate],
    one: CountedUpdate,
    redraws: int,
    resamples: int,
    *,
    redraw_choices: bool = True,
) -> list[Share]:
    """How often the interval of a difference in NFR to one update contains the difference of the population.

    Args:
        updates, one: their samples are the population.
        redraws: times that both parts are drawn anew, the same pictures for all updates.
        resamples: draws of each interval.
        redraw_choices: whether the interval chooses biases again, or knows the test samples alone.
    """
    weights = _weights(one, resamples)
    population = observed_rates(one)["nfr"]
    true = [observed_rates(update)["nfr"] - population for update in updates]
    covered = [0] * len(updates)
    for seed in range(redraws):
        *others, last = _draw_pictures([*updates, one], np.random.default_rng([1, seed]))
        if not redraw_choices:
            *others, last = (replace(update, choice=None) for update in (*others, last))
        draws = rates_of_draws(last, weights)["nfr"]
        for i, update in enumerate(others):
            covered[i] += _contains(_interval(update, last, weights, draws), true[i])
    return [Share(count, redraws) for count in covered]


def told_apart(one: CountedUpdate, other: CountedUpdate, redraws: int, resamples: int) -> Share:
    """How often two updates that are equal by construction are told apart.

    In each redraw the answers of the two are swapped at random, picture by picture, in both parts; the second is the
    one at whose validation error both are compared.
    """
    weights = _weights(one, resamples)
    apart = 0
    for seed in range(redraws):
        rng = np.random.default_rng([2, seed])
        first, second = _swap_answers(*_draw_pictures([one, other], rng), rng)
        draws = rates_of_draws(second, weights)["nfr"]
        apart += not _contains(_interval(first, second, weights, draws), 0.0)
    return Share(apart, redraws)


def _draw_pictures(updates: Sequence[CountedUpdate], rng: np.random.Generator) -> list[CountedUpdate]:
    """The same updates on as many pictures of each part, drawn with replacement, each bias chosen anew."""
    test = rng.integers(len(updates[0].answers), size=len(updates[0].answers))
    choices = [update.choice for update in updates if update.choice is not None]
    val = rng.integers(len(choices[0].answers), size=len(choices[0].answers))
    return [
        _chosen(
            replace(
                update,
                answers=_rows(update.answers, test),
                of_old=update.of_old[test],
                old_right=update.old_right[test],
                choice=replace(
                    choice, answers=_rows(choice.answers, val), rival_wrong=choice.rival_wrong[val]
                ),
            )
        )
        for update, choice in zip(updates, choices, strict=True)
    ]


def _swap_answers(
    one: CountedUpdate, other: CountedUpdate, rng: np.random.Generator
) -> tuple[CountedUpdate, CountedUpdate]:
    """Two updates whose answers were swapped at random, held against the second as it is."""
    assert one.choice is not None
    assert other.choice is not None
    test = _swap(one.answers, other.answers, rng)
    val = _swap(one.choice.answers, other.choice.answers, rng)
    rival_wrong = val[1].at(0.0)
    first, second = (
        replace(choice, answers=answers, rival_wrong=rival_wrong)
        for choice, answers in zip((one.choice, other.choice), val, strict=True)
    )
    return (
        _chosen(replace(one, answers=test[0], choice=first)),
        _chosen(replace(other, answers=test[1], choice=second)),
    )


def _swap(one: WrongByBias, other: WrongByBias, rng: np.random.Generator) -> tuple[WrongByBias, WrongByBias]:
    swapped = rng.random(len(one)) < 0.5

    def mixed(first: WrongByBias, second: WrongByBias) -> WrongByBias:
        return WrongByBias(
            gap=np.where(swapped, second.gap, first.gap),
            as_new=np.where(swapped, second.as_new, first.as_new),
            as_old=np.where(swapped, second.as_old, first.as_old),
        )

    return mixed(one, other), mixed(other, one)


def _chosen(update: CountedUpdate) -> CountedUpdate:
    assert update.choice is not None
    return replace(update, bias=float(update.choice.choose(np.ones((1, len(update.choice.answers))))[0]))


def _rows(answers: WrongByBias, rows: Rows) -> WrongByBias:
    return WrongByBias(answers.gap[rows], answers.as_new[rows], answers.as_old[rows])


def _weights(update: CountedUpdate, resamples: int) -> dict[tuple[Part, int], Weights]:
    """The draws of an interval; the same for all intervals, as `compare` has them."""
    assert update.choice is not None
    rng = np.random.default_rng(0)
    sizes: list[tuple[Part, int]] = [("val", len(update.choice.answers)), (update.part, len(update.answers))]
    return {(part, n): draw_weights(rng, resamples, n) for part, n in sizes}


def _interval(
    update: CountedUpdate,
    one: CountedUpdate,
    weights: Mapping[tuple[Part, int], Weights],
    draws_of_one: NDArray[np.float64],
) -> tuple[float, float] | None:
    draws = rates_of_draws(update, weights)["nfr"] - draws_of_one
    return interval_of_mean([observed_rates(update)["nfr"] - observed_rates(one)["nfr"]], draws)


def _contains(ends: tuple[float, float] | None, value: float) -> bool:
    return ends is not None and ends[0] <= value <= ends[1]


if __name__ == "__main__":
    sys.exit(main())
