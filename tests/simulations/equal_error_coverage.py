"""Count how often intervals of `compare --equal-error` contain the true difference, on samples drawn anew.

The population are the stored predictions of one seed; validation and test part are drawn from them.

python -m tests.simulations.equal_error_coverage results/cifar10-bf16 --row mpt-kl-k1.5
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
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
from mptctl.studies.groups import find_row, group_updates
from mptctl.studies.post_hoc_bias import at_equal_error
from mptctl.studies.updates import find_updates
from tests.simulations.table import Share, Table

Rows = NDArray[np.int64]


def main() -> int:
    """Print a line for each update: how often intervals of its difference to ROW contain the true one.

    The columns are the coverage, the coverage if biases were not chosen anew, and how often the update and
    ROW are told apart although their predictions are mixed at random.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("runs", type=Path, help="kept answers of one seed")
    parser.add_argument("--row", required=True, help="at whose validation error all are compared")
    parser.add_argument("--redraws", type=int, default=2000)
    parser.add_argument("--resamples", type=int, default=400, help="draws of each interval")
    given = parser.parse_args()
    stored = find_updates([given.runs], None).updates
    rows = group_updates(stored)
    groups = at_equal_error(rows, find_row("--row", given.row, rows)).groups
    updates = {group.name: group.updates[0].counted for group in groups}
    base, draws = updates.pop(given.row), (given.redraws, given.resamples)
    covered = measure_coverage(list(updates.values()), base, *draws)
    fixed = measure_coverage(list(updates.values()), base, *draws, redraw_choices=False)
    table = Table("row" + " " * 20, "covered, %     ", "biases fixed, %", "equal rows told apart, %")
    for (name, update), *shares in zip(updates.items(), covered, fixed, strict=True):
        table.row(name, *shares, count_told_apart(update, base, *draws))
    return 0


def measure_coverage(
    updates: Sequence[CountedUpdate],
    base: CountedUpdate,
    redraws: int,
    resamples: int,
    *,
    redraw_choices: bool = True,
) -> list[Share]:
    """Count, for each update, how often the interval of its NFR minus the base's contains the true difference.

    Args:
        updates: their samples are the population.
        base: the update that they are compared with, on the same samples.
        redraws: times that both parts are drawn anew, the same pictures for all updates.
        resamples: draws of each interval.
        redraw_choices: each draw of an interval chooses the biases again; otherwise they stay as they are.
    """
    weights = _draw_interval_weights(base, resamples)
    base_nfr = observed_rates(base)["nfr"]
    true_differences = [observed_rates(update)["nfr"] - base_nfr for update in updates]
    covered = [0] * len(updates)
    for seed in range(redraws):
        redrawn = _draw_pictures([*updates, base], np.random.default_rng([1, seed]))
        if not redraw_choices:
            redrawn = [replace(update, choice=None) for update in redrawn]
        *redrawn_updates, redrawn_base = redrawn
        base_draws = rates_of_draws(redrawn_base, weights)["nfr"]
        for i, update in enumerate(redrawn_updates):
            interval = _difference_interval(update, redrawn_base, weights, base_draws)
            covered[i] += _contains(interval, true_differences[i])
    return [Share(count, redraws) for count in covered]


def count_told_apart(update: CountedUpdate, base: CountedUpdate, redraws: int, resamples: int) -> Share:
    """Count how often the interval of two updates that are equal by construction excludes a difference of 0.

    In each redraw the predictions of the two are swapped at random, picture by picture, in both parts. Both
    are compared at the validation error of the base.
    """
    weights = _draw_interval_weights(update, resamples)
    apart = 0
    for seed in range(redraws):
        rng = np.random.default_rng([2, seed])
        first, second = _swap_predictions(*_draw_pictures([update, base], rng), rng)
        draws = rates_of_draws(second, weights)["nfr"]
        apart += not _contains(_difference_interval(first, second, weights, draws), 0.0)
    return Share(apart, redraws)


def _draw_pictures(updates: Sequence[CountedUpdate], rng: np.random.Generator) -> list[CountedUpdate]:
    """The updates on pictures drawn with replacement, as many of each part, with biases chosen anew.

    All updates get the same pictures.
    """
    test_size = len(updates[0].answers)
    test_rows = rng.integers(test_size, size=test_size)
    choices = [update.choice for update in updates if update.choice is not None]
    val_size = len(choices[0].answers)
    val_rows = rng.integers(val_size, size=val_size)
    redrawn = []
    for update, choice in zip(updates, choices, strict=True):
        redrawn_choice = replace(
            choice, answers=_take(choice.answers, val_rows), rival_wrong=choice.rival_wrong[val_rows]
        )
        redrawn_update = replace(
            update, answers=_take(update.answers, test_rows), of_old=update.of_old[test_rows],
            old_right=update.old_right[test_rows], choice=redrawn_choice,
        )  # fmt: skip
        redrawn.append(_choose_bias(redrawn_update))
    return redrawn


def _swap_predictions(
    update: CountedUpdate, base: CountedUpdate, rng: np.random.Generator
) -> list[CountedUpdate]:
    """Swap the predictions of two updates at random, in both parts, and choose their biases anew.

    Both biases are chosen for the validation error of the second one.
    """
    tests = _swap_at_random(update.answers, base.answers, rng)
    held_out = _swap_at_random(update.choice.answers, base.choice.answers, rng)
    rival_wrong = held_out[1].at(0.0)
    return [
        _choose_bias(
            replace(one, answers=test, choice=replace(one.choice, answers=val, rival_wrong=rival_wrong))
        )
        for one, test, val in zip((update, base), tests, held_out, strict=True)
    ]


def _swap_at_random(one: WrongByBias, other: WrongByBias, rng: np.random.Generator) -> list[WrongByBias]:
    """The two with the predictions of each picture swapped with probability 1/2."""
    is_swapped = rng.random(len(one)) < 0.5
    return [
        WrongByBias(
            *(
                np.where(is_swapped, getattr(second, each.name), getattr(first, each.name))
                for each in fields(first)
            )
        )
        for first, second in ((one, other), (other, one))
    ]


def _choose_bias(update: CountedUpdate) -> CountedUpdate:
    """The update with the bias that its validation samples choose, each counted once."""
    each_once = np.ones((1, len(update.choice.answers)))
    return replace(update, bias=float(update.choice.choose(each_once)[0]))


def _take(answers: WrongByBias, rows: Rows) -> WrongByBias:
    return WrongByBias(answers.gap[rows], answers.as_new[rows], answers.as_old[rows])


def _draw_interval_weights(update: CountedUpdate, resamples: int) -> dict[tuple[Part, int], Weights]:
    """Draw the weights of samples for intervals, by part and its size; `compare` too has one set for all."""
    rng = np.random.default_rng(0)
    sizes: list[tuple[Part, int]] = [("val", len(update.choice.answers)), (update.part, len(update.answers))]
    return {(part, n): draw_weights(rng, resamples, n) for part, n in sizes}


def _difference_interval(
    update: CountedUpdate,
    base: CountedUpdate,
    weights: Mapping[tuple[Part, int], Weights],
    base_draws: NDArray[np.float64],
) -> tuple[float, float] | None:
    """The interval of the update's NFR minus the base's, whose NFR in each draw is given; None where undefined."""
    draws = rates_of_draws(update, weights)["nfr"] - base_draws
    return interval_of_mean([observed_rates(update)["nfr"] - observed_rates(base)["nfr"]], draws[None])


def _contains(ends: tuple[float, float] | None, value: float) -> bool:
    """Whether an interval contains a value, its ends included; False for None."""
    return ends is not None and ends[0] <= value <= ends[1]


if __name__ == "__main__":
    sys.exit(main())
