"""How often the intervals of `compare --equal-error` cover: kept answers as the population, both parts drawn anew.

python -m tools.equal_error_coverage results/cifar10-bf16 --row mpt-kl-k1.5
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mptctl.evaluation.paired_bootstrap import (
    CountedUpdate,
    Weights,
    WrongByBias,
    draw_weights,
    interval,
    observed,
    rates_of_draws,
)
from mptctl.names import Part
from mptctl.studies.equal_error import at_equal_error
from mptctl.studies.groups import group_updates
from mptctl.studies.post_hoc_bias import take_bias_off
from mptctl.studies.updates import find_updates

Rows = NDArray[np.int64]
HEAD = (
    f"{'row':<24}  {'against':<20}  {'difference, flips':>17}  {'covered':>8}  {'error':>5}  {'biases fixed':>12}"
    f"  {'equal rows told apart':>21}  {'error':>5}"
)


@dataclass(frozen=True)
class Share:
    """A share of redraws, and its Monte Carlo error: one standard deviation of it."""

    count: int
    of: int

    @property
    def value(self) -> float:
        """The share."""
        return self.count / self.of

    @property
    def error(self) -> float:
        """The standard deviation of a binomial share."""
        return float(np.sqrt(self.value * (1 - self.value) / self.of))

    def __str__(self) -> str:
        return f"{100 * self.value:>7.2f}%  {100 * self.error:>5.2f}"


def main() -> int:
    """Print a line for each row: coverage of its difference to the one, and how often it is told from its equal."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, help="kept answers of one seed")
    parser.add_argument("--row", required=True, help="at whose validation error all are compared")
    parser.add_argument("--redraws", type=int, default=2000)
    parser.add_argument("--resamples", type=int, default=500, help="draws of each interval")
    given = parser.parse_args()
    groups = group_updates(find_updates([given.runs], None).updates, "seed")
    moved, _ = at_equal_error(groups, given.row)
    pairs = [(group.name, group.updates[0].counted, given.row) for group in moved if group.name != given.row]
    rival = {group.name: group.updates[0].counted for group in moved}
    bias_row, target, _ = take_bias_off(groups)
    if bias_row is not None and target is not None:
        as_it_is = next(group for group in groups if group.name == target)
        rival["as it is"] = as_it_is.updates[0].counted
        pairs.append((f"{bias_row.name}", bias_row.updates[0].counted, "as it is"))
    print(HEAD)  # noqa: T201
    for name, update, other in pairs:
        true = observed(update)["nfr"] - observed(rival[other])["nfr"]
        covers, fixed = coverage(update, rival[other], given.redraws, given.resamples)
        equal: Share | str = ""
        if other == given.row:
            equal = told_apart(update, rival[other], given.redraws, given.resamples)
        print(  # noqa: T201
            f"{name:<24}  {other if other == given.row else target or '':<20}  "
            f"{true * int(update.of_old.sum()):>+17.0f}  {covers}  {fixed.value:>12.2%}  {equal!s:>28}",
            flush=True,
        )
    return 0


def coverage(one: CountedUpdate, other: CountedUpdate, redraws: int, resamples: int) -> tuple[Share, Share]:
    """How often the interval of a difference in NFR contains the difference of the population.

    Args:
        one, other: the two updates; their samples are the population.
        redraws: times that both parts are drawn anew, the same pictures for both updates.
        resamples: draws of each interval.

    Returns:
        The share, and that of the interval that redraws the test part alone and leaves the biases as they are.
    """
    true = observed(one)["nfr"] - observed(other)["nfr"]
    covered = fixed = 0
    weights = _weights(one, resamples)
    for seed in range(redraws):
        drawn = _draw_pictures([one, other], np.random.default_rng([1, seed]))
        covered += _contains(_interval(drawn, weights), true)
        fixed += _contains(_interval([replace(update, choice=None) for update in drawn], weights), true)
    return Share(covered, redraws), Share(fixed, redraws)


def told_apart(one: CountedUpdate, other: CountedUpdate, redraws: int, resamples: int) -> Share:
    """How often two updates that are equal by construction are told apart.

    In each redraw the answers of the two are swapped at random, picture by picture, in both parts; the second is the
    one at whose validation error both are compared.
    """
    apart = 0
    weights = _weights(one, resamples)
    for seed in range(redraws):
        rng = np.random.default_rng([2, seed])
        swapped = _swap_answers(*_draw_pictures([one, other], rng), rng)
        apart += not _contains(_interval(swapped, weights), 0.0)
    return Share(apart, redraws)


def _draw_pictures(updates: Sequence[CountedUpdate], rng: np.random.Generator) -> list[CountedUpdate]:
    """The same updates on as many pictures of each part, drawn with replacement, each bias chosen anew."""
    test = rng.integers(len(updates[0].answers), size=len(updates[0].answers))
    choices = [update.choice for update in updates if update.choice is not None]
    val = rng.integers(len(choices[0].answers), size=len(choices[0].answers))
    drawn = []
    for update in updates:
        choice = update.choice
        if choice is not None:
            choice = replace(choice, answers=_rows(choice.answers, val), rival_wrong=choice.rival_wrong[val])
        taken = replace(
            update,
            answers=_rows(update.answers, test),
            of_old=update.of_old[test],
            old_right=update.old_right[test],
            choice=choice,
        )
        drawn.append(_chosen(taken))
    return drawn


def _swap_answers(one: CountedUpdate, other: CountedUpdate, rng: np.random.Generator) -> list[CountedUpdate]:
    """Two updates whose answers were swapped at random, held against the second as it is."""
    assert one.choice is not None
    assert other.choice is not None
    test = _swap(one.answers, other.answers, rng)
    val = _swap(one.choice.answers, other.choice.answers, rng)
    rival_wrong = val[1].at(0.0)
    return [
        _chosen(
            replace(update, answers=test[i], choice=replace(choice, answers=val[i], rival_wrong=rival_wrong))
        )
        for i, (update, choice) in enumerate(((one, one.choice), (other, other.choice)))
    ]


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
    if update.choice is None:
        return update
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
    updates: Sequence[CountedUpdate], weights: dict[tuple[Part, int], Weights]
) -> tuple[float, float] | None:
    one, other = (rates_of_draws(update, weights)["nfr"] for update in updates)
    return interval([observed(updates[0])["nfr"] - observed(updates[1])["nfr"]], one - other)


def _contains(ends: tuple[float, float] | None, value: float) -> bool:
    return ends is not None and ends[0] <= value <= ends[1]


if __name__ == "__main__":
    sys.exit(main())
