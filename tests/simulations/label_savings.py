"""Count the labels that decide a limit, of disagreements and of random samples, on kept predictions of studies.

python -m tests.simulations.label_savings results/demo/0 results/demo-seeds/{1..4}

The traffic of an update is the test samples of old classes of its study. Limits are multiples of the true rate
of negative flips. A number of labels decides a limit if in 80 % of random orders the interval excludes it: that
of this traffic, and that of the traffic that it stands for, which not even all labels may decide. Where no label is
needed, the ratio counts one.

With --strata added, instead: the mean width of both intervals after `LABELS` labels in `ORDERS` random orders,
drawn from strata of confidence, over that without strata.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy.special import bdtr, bdtrc

from mptctl.evaluation.labels.draw import ALIKE
from mptctl.evaluation.labels.sampling import (
    SAMPLING_PART,
    Stratum,
    flip_shares,
    log_lower_tail,
    share_interval,
)
from mptctl.studies.answers_file import read_answers
from tests.simulations.table import Table

TAIL, PROBABILITY = 0.025, 0.8
TIMES = (0.5, 0.8, 1.25, 2.0)
# Most labels of random samples of such traffic that are tried.
MOST = 10**7
LABELS, ORDERS = 100, 10


class Update(NamedTuple):
    """An update of a study: samples, those with different predictions, and negative flips."""

    name: str
    samples: int
    differ: int
    flips: int
    flips_in_strata: tuple[tuple[int, int], ...] = ()  # rows, and flips among them


def main() -> int:
    """Print a line for each update and limit, and the medians over updates."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("seeds", type=Path, nargs="+", help="folders of runs, a seed of a study each")
    parser.add_argument("--strata", action="store_true")
    asked = parser.parse_args()
    updates = [each for seed in asked.seeds for each in read_updates(seed)]
    if asked.strata:
        widths = np.array([widths_of_strata(each) for each in updates if each.differ > LABELS])
        print(
            f"width with strata / without, {LABELS} labels, median (range), {len(widths)} updates: this traffic "
            f"{_spread(widths[:, 0], 2)}; such traffic {_spread(widths[:, 1], 2)}"
        )
        return 0
    table = Table(
        "update" + " " * 36, "samples", "differ", "flips", "limit x", "this", "random", "such", "random"
    )
    ratios: dict[float, list[tuple[float, float]]] = {times: [] for times in TIMES}
    for update, times in product(updates, TIMES):
        limit = times * update.flips / update.samples
        this, random = (
            labels_for_this(rows, update.flips, limit * update.samples)
            for rows in (update.differ, update.samples)
        )
        such = labels_for_such(update, limit), random_labels_for_such(update, limit)
        counts = ("-" if each is None else each for each in (this, random, *such))
        table.row(update.name, update.samples, update.differ, update.flips, times, *counts)
        ratios[times].append((_ratio(this, random), _ratio(*such)))
    for times, found in ratios.items():
        this_ratio, such_ratio = (np.array(each)[~np.isnan(each)] for each in zip(*found, strict=True))
        print(
            f"limit x {times:g}: random / these, median (range), {len(this_ratio)} updates: this traffic "
            f"{_spread(this_ratio)}; such traffic, {such_ratio.size} decided: {_spread(such_ratio)}"
        )
    return 0


def _ratio(these: int | None, random: int | None) -> float:
    """How many times as many random labels are needed; nan where not all decide."""
    return math.nan if these is None or random is None else random / max(these, 1)


def _spread(ratios: np.ndarray, digits: int = 1) -> str:
    if not ratios.size:
        return "-"
    return f"{np.median(ratios):.{digits}f} ({ratios.min():.{digits}f} to {ratios.max():.{digits}f})"


def widths_of_strata(update: Update) -> tuple[float, float]:
    """The mean width with strata over that without, in this traffic and in such traffic."""
    generator, widths = np.random.default_rng(0), np.zeros((2, 2))
    for _ in range(ORDERS):
        for i, sizes in enumerate((update.flips_in_strata, ((update.differ, update.flips),))):
            drawn = [(rows, flips, round(LABELS * rows / update.differ)) for rows, flips in sizes]
            strata = [
                Stratum(rows, labels, int(generator.hypergeometric(flips, rows - flips, labels)))
                for rows, flips, labels in drawn
            ]
            shares = flip_shares(strata, update.samples, TAIL, "once")
            widths[i] += [high - low for low, high in (shares.drawn, shares.population)]
    this, such = widths[0] / widths[1]
    return float(this), float(such)


def read_updates(seed: Path) -> list[Update]:
    """Read the kept predictions of the updates in a folder of runs, beside those of its old model."""
    old, updates = read_answers(seed / "old"), []
    assert old is not None, seed
    for folder in sorted(seed.iterdir()):
        if folder.name in ("old", "ref") or folder.name.endswith("-old"):
            continue
        new = read_answers(folder)
        if new is None or not np.array_equal(new.test.index, old.test.index):
            continue
        known = old.test.label < old.head.num_old
        differ = known & (old.test.answers() != new.test.answers())
        flip = (old.test.right() & ~new.test.right())[differ]
        surer = old.test.confidence.astype(float) - new.test.confidence.astype(float)
        stratum = np.searchsorted([-ALIKE, ALIKE], surer[differ])
        strata = tuple(
            (int((stratum == each).sum()), int(flip[stratum == each].sum())) for each in np.unique(stratum)
        )
        if flip.any():
            name = "/".join(folder.parts[-3:])
            updates.append(Update(name, int(known.sum()), len(flip), int(flip.sum()), strata))
    return updates


def labels_for_this(rows: int, flips: int, most: float) -> int | None:
    """The labels of a random part of rows that decide whether at most so many of all flip; all rows at most."""
    allowed = math.floor(most + 1e-9)
    if rows <= allowed:
        return 0

    def decides(labels: int) -> bool:
        if labels == rows:
            return True
        return _power(rows, flips, labels, allowed, TAIL) >= PROBABILITY

    return _first(decides, rows)


def labels_for_such(update: Update, limit: float) -> int | None:
    """The labels of disagreements that decide a limit of the traffic that this one stands for; None: not all."""
    tail, is_pass = (1 - SAMPLING_PART) * TAIL, limit > update.flips / update.samples
    # Decided to pass up to the last count whose upper limit is within, to fail above the last whose lower limit is.
    within = (
        n
        for n in range(min(3 * update.flips, update.samples + 1))
        if share_interval((n, n), update.samples, tail)[is_pass] <= limit
    )
    allowed = max(within, default=-1)
    if is_pass and update.differ <= allowed:
        return 0

    def decides(labels: int) -> bool:
        if labels == update.differ:
            return (update.flips <= allowed) == is_pass
        power = _power(update.differ, update.flips, labels, allowed, SAMPLING_PART * TAIL, is_pass)
        return power >= PROBABILITY

    return _first(decides, update.differ) if allowed >= 0 else None


def _power(
    rows: int, flips: int, labels: int, allowed: int, tail: float, is_pass: bool | None = None
) -> float:
    """The probability that labels show that at most, or that more than, `allowed` of all rows flip."""
    if flips > allowed if is_pass is None else not is_pass:
        # The rows that do not flip are fewer than if `allowed` flipped.
        flips, allowed = rows - flips, rows - allowed - 1
    low, high = -1, labels
    while high - low > 1:
        middle = (low + high) // 2
        is_shown = log_lower_tail(middle, allowed + 1, rows, labels) <= math.log(tail)
        low, high = (middle, high) if is_shown else (low, middle)
    return float(np.exp(log_lower_tail(low, flips, rows, labels))) if low >= 0 else 0.0


def random_labels_for_such(update: Update, limit: float) -> int | None:
    """The labels of samples drawn at random that decide a limit, where the true rate is that of the update."""
    rate = update.flips / update.samples
    is_pass = limit > rate

    def decides(labels: int) -> bool:
        found = np.arange(int(labels * max(limit, rate) * 2) + 50)
        if is_pass:
            shown = np.flatnonzero(bdtr(found, labels, limit) <= TAIL)
            return bool(shown.size and bdtr(shown[-1], labels, rate) >= PROBABILITY)
        shown = np.flatnonzero(bdtrc(found, labels, limit) <= TAIL)  # more than `found`
        return bool(shown.size and bdtrc(shown[0], labels, rate) >= PROBABILITY)

    return _first(decides, MOST)


def _first(holds: Callable[[int], bool], most: int) -> int | None:
    """A smallest number up to `most` for which something holds that holds about from there on."""
    high = 1
    while not holds(high):
        if high == most:
            return None
        high = min(2 * high, most)
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle, high)
    return high


if __name__ == "__main__":
    sys.exit(main())
