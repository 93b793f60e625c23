"""The mean of NFR over classes by hand, and its interval by simulation and at equal weights."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta

from mptctl.evaluation.macro_nfr import bootstrap_interval
from mptctl.evaluation.reading.predictions import Predictions
from tests.common import CommandLine
from tests.evaluation.files import write

DRAWS = int(os.environ.get("MPTCTL_DRAWS", "200"))

Pair = tuple[Predictions, Predictions]
IDS = [f"s{i:02d}" for i in range(1, 21)]


@pytest.mark.parametrize(("count", "total"), [(0, 20), (1, 50), (7, 300), (40, 100), (99, 100), (30, 30)])
@pytest.mark.parametrize("weight", [1.0, 2.5e-7])
def test_of_equal_weights_it_is_clopper_and_pearsons(count: int, total: int, weight: float) -> None:
    inside, outside = ((n * weight, n * weight**2) for n in (count, total - count))
    low, high = bootstrap_interval(inside, outside, weight)
    exact = (
        beta.ppf(0.025, count, total - count + 1) if count else 0.0,
        beta.ppf(0.975, count + 1, total - count) if count < total else 1.0,
    )
    assert (low, high) == pytest.approx(exact, rel=1e-9)
    # The interval is drawn, and comes near, where one weight is a little smaller.
    smaller = [(sums[0] - 1e-4 * weight, sums[1] - 2e-4 * weight**2) for sums in (inside, outside)]
    drawn = bootstrap_interval(*((inside, smaller[1]) if count < total else (smaller[0], outside)), weight)
    assert drawn != (low, high)
    assert drawn == pytest.approx(exact, abs=0.04 * (exact[1] - exact[0]))


WEIGHTS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "equal": lambda rng, n: np.ones(n),
    "two prices": lambda rng, n: np.where(rng.random(n) < 0.1, 10.0, 1.0),
    "log-normal": lambda rng, n: rng.lognormal(0, 1, n),
    "half are free": lambda rng, n: rng.integers(0, 2, n).astype(float),
}


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize(("n", "rate"), [(200, 0.02), (1000, 0.03), (500, 0.3)])
def test_the_interval_holds_the_true_rate(kind: str, n: int, rate: float) -> None:
    """Few flips and many; heavy samples flip twice as often, so that weighted and plain rate differ."""
    rng, draws, held = np.random.default_rng(1), DRAWS, 0
    many = WEIGHTS[kind](rng, 400_000)
    dear = np.where(many > 5, 2.0, 1.0)
    true = rate * (many * dear).sum() / many.sum()
    for _ in range(draws):
        weights = WEIGHTS[kind](rng, n)
        flips = rng.random(n) < rate * np.where(weights > 5, 2.0, 1.0)
        inside, outside = weights[flips], weights[~flips]
        low, high = bootstrap_interval(
            (inside.sum(), (inside**2).sum()), (outside.sum(), (outside**2).sum()), float(weights.max())
        )
        held += low <= true <= high
    print(f"{kind}, {n:,} samples that flip at {rate:.0%}: {held} of {draws}")
    assert held / draws >= 0.95 - 2 * np.sqrt(0.05 * 0.95 / draws)


def test_the_mean_over_classes_is_nfr_where_each_sample_weighs_one_by_the_samples_of_its_class(
    twenty: Pair, mptctl: CommandLine, tmp_path: Path
) -> None:
    labels = twenty[0].labels.tolist()
    # Two samples of class a are left out: of classes of one size it is the pooled rate.
    kept = [i for i in range(20) if i not in [labels.index("a"), len(labels) - 1 - labels[::-1].index("a")]]
    for name, model in zip(("old.csv", "new.csv"), twenty, strict=True):
        columns = (IDS, labels, model.preds.tolist())
        ids, truth, answers = ([column[i] for i in kept] for column in columns)
        write(tmp_path / name, id=ids, label=truth, pred=answers)
    (tmp_path / "classes.txt").write_text("a\nb\n")
    files = (tmp_path / "old.csv", tmp_path / "new.csv", "--old-classes", tmp_path / "classes.txt")
    found = json.loads(mptctl("evaluate", *files, "--json").stdout)
    flips = {row["label"]: row["negative_flips"] for row in found["per_class"]}
    by_hand = (flips["a"] / 5 + flips["b"] / 7) / 2
    assert found["macro_nfr"]["value"] == pytest.approx(by_hand)
    assert abs(by_hand - found["nfr"]) > 0.001
    n, flipped = np.array([5, 7]), np.array([flips["a"], flips["b"]])
    inside, outside = ((float((k / n).sum()), float((k / n**2).sum())) for k in (flipped, n - flipped))
    assert found["macro_nfr"]["ci95"] == pytest.approx(bootstrap_interval(inside, outside, 1 / 5))
    lines = [" ".join(line.split()) for line in mptctl("evaluate", *files, "--full").stdout.splitlines()]
    place = next(i for i, line in enumerate(lines) if line.startswith("NFR right before"))
    assert lines[place + 1].startswith(f"macro NFR mean over old classes {100 * by_hand:.2f} %")
