"""Weighted rates: by hand, their intervals by simulation and at equal weights, and weights that are none."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import beta

from mptctl.errors import DataError
from mptctl.evaluation.evaluate import ComparisonRequest, compare
from mptctl.evaluation.flip_report import Weighted
from mptctl.evaluation.reading.predictions import Predictions
from mptctl.evaluation.slices.ranking import SliceRequest
from mptctl.evaluation.weights import bootstrap_interval
from tests.common import CommandLine
from tests.evaluation.files import write

DRAWS = int(os.environ.get("MPTCTL_DRAWS", "200"))

Pair = tuple[Predictions, Predictions]
# Of `twenty`: s01 to s14 are of old classes; s04, s05 and s09 flip; s06, s07, s12 and s13 were wrong before.
IDS = [f"s{i:02d}" for i in range(1, 21)]
COSTS = [1.0, 1, 1, 5, 0, 2, 1, 1, 0.5, 1, 1, 1, 3, 1, *[7.0] * 6]


def weighted(pair: Pair, path: Path) -> Weighted:
    found = compare(*pair, ComparisonRequest(slicing=SliceRequest(files=[path]), weight="cost")).weighted
    assert found is not None
    return found


def test_by_hand(twenty: Pair, path: Path) -> None:
    """In all 19.5; flips 5 + 0 + 0.5; wrong before 2 + 1 + 1 + 3; wrong now the flips, s07 not, s13: 3, ..."""
    write(path, id=[*IDS[::-1], "other"], cost=[*COSTS[::-1], -1.0])  # a row of no sample is nobody's
    found = weighted(twenty, path)
    old, new = twenty
    truth, of_old = old.labels, np.isin(old.labels, ["a", "b"])
    costs = np.array(COSTS)
    assert found.total == pytest.approx(19.5)
    assert found.nfr.value == pytest.approx(5.5 / 19.5)
    assert found.lost.value == pytest.approx(5.5 / 12.5)
    assert found.er_old.value == pytest.approx(7 / 19.5)
    wrong = of_old & (new.preds != truth)
    assert found.er_new.value == pytest.approx(costs[wrong].sum() / 19.5)
    for rate in (found.nfr, found.lost, found.er_old, found.er_new):
        assert rate.value is not None and rate.ci95 is not None
        assert 0 <= rate.ci95[0] < rate.value < rate.ci95[1] <= 1
    assert weighted(twenty, path) == found


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


def test_weights_of_one_give_the_interval_of_the_plain_rate(twenty: Pair, path: Path) -> None:
    """Three of 14 flip: 4.66 to 50.80 %, also where each costs 0.1 and where new classes cost more."""
    for cost, other in ((1.0, 1.0), (0.1, 3.0)):
        write(path, id=IDS, cost=[cost] * 14 + [other] * 6)
        ends = weighted(twenty, path).nfr.ci95
        assert ends == pytest.approx((0.0466, 0.5080), abs=5e-5)


WEIGHTS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "equal": lambda rng, n: np.ones(n),
    "two prices": lambda rng, n: np.where(rng.random(n) < 0.1, 10.0, 1.0),
    "log-normal": lambda rng, n: rng.lognormal(0, 1, n),
    "half are free": lambda rng, n: rng.integers(0, 2, n).astype(float),
}


@pytest.mark.parametrize("kind", WEIGHTS)
@pytest.mark.parametrize(("n", "rate"), [(200, 0.02), (1000, 0.03), (500, 0.3)])
def test_the_interval_holds_the_true_rate(kind: str, n: int, rate: float) -> None:
    """Few flips and many; dear samples flip twice as often, so that weighted and plain rate differ."""
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
    print(f"{kind}, {n:,} samples that flip at {rate:.0%}: {held} of {draws}")  # noqa: T201
    assert held / draws >= 0.95 - 2 * np.sqrt(0.05 * 0.95 / draws)


@pytest.mark.parametrize("bad", ["-1", "nan", "inf", "1e400", "", "much", "1e-200", "1_000"])
def test_what_is_no_weight_is_named(twenty: Pair, tmp_path: Path, bad: str) -> None:
    costs = ["1"] * 20
    costs[2], costs[16] = bad, bad  # of an old class, and of a new one
    write(tmp_path / "meta.csv", id=IDS, cost=costs)
    with pytest.raises(DataError, match=r"--weight cost of .*: 2 samples have no weight \(s03: ") as caught:
        weighted(twenty, tmp_path / "meta.csv")
    assert caught.value.exit_code == 4


def test_samples_without_a_row_and_weights_that_are_all_zero(twenty: Pair, path: Path) -> None:
    write(path, id=IDS[1:], cost=[1] * 19)
    with pytest.raises(DataError, match=r"1 samples have no weight \(s01: missing\)"):
        weighted(twenty, path)
    write(path, id=IDS, cost=[0] * 14 + [1] * 6)
    with pytest.raises(DataError, match="the weights of all 14 samples of old classes are zero"):
        weighted(twenty, path)


def test_on_the_command_line(tmp_path: Path, mptctl: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    keys = {"id": [1, 2, 3, 4], "label": list("aabb")}
    write(Path("old.csv"), pred=list("aaba"), cost=[1, 2, 3, 4], **keys)
    write(Path("new.parquet"), pred=list("abbb"), **keys)
    words = ("evaluate", "old.csv", "new.parquet", "--weight")
    page = json.loads(mptctl(*words, "cost", "--json").stdout)
    assert page["weighted"]["nfr"]["value"] == pytest.approx(0.2)
    assert json.loads(mptctl(*words[:3], "--json").stdout)["weighted"] is None
    assert "Weighted by cost: NFR 20.00 % (" in " ".join(mptctl(*words, "cost").stdout.split())
    done = mptctl(*words, "costs")
    assert (done.returncode, done.stdout) == (4, "")
    assert (
        "--weight costs: no such column (nearest: cost); old.csv has pred, cost, id and 1 more" in done.stderr
    )


def test_the_mean_over_classes_is_nfr_where_each_sample_weighs_one_by_the_samples_of_its_class(
    twenty: Pair, path: Path, mptctl: CommandLine, tmp_path: Path
) -> None:
    labels = twenty[0].labels.tolist()
    # Two samples of class a are left out: of classes of one size it is the pooled rate.
    kept = [i for i in range(20) if i not in [labels.index("a"), len(labels) - 1 - labels[::-1].index("a")]]
    for name, model in zip(("old.csv", "new.csv"), twenty, strict=True):
        columns = (IDS, labels, model.preds.tolist())
        ids, truth, answers = ([column[i] for i in kept] for column in columns)
        write(tmp_path / name, id=ids, label=truth, pred=answers)
    (tmp_path / "classes.txt").write_text("a\nb\n")
    sizes = {"a": 5, "b": 7}
    write(path, id=IDS, cost=[1 / sizes.get(label, 1) for label in labels])
    files = (tmp_path / "old.csv", tmp_path / "new.csv", "--old-classes", tmp_path / "classes.txt")
    found = json.loads(mptctl("evaluate", *files, "--metadata", path, "--weight", "cost", "--json").stdout)
    flips = {row["label"]: row["negative_flips"] for row in found["per_class"]}
    by_hand = (flips["a"] / 5 + flips["b"] / 7) / 2
    assert found["macro_nfr"]["value"] == pytest.approx(by_hand)
    assert abs(by_hand - found["nfr"]) > 0.001
    assert found["macro_nfr"]["value"] == pytest.approx(found["weighted"]["nfr"]["value"])
    assert found["macro_nfr"]["ci95"] == pytest.approx(found["weighted"]["nfr"]["ci95"])
    lines = [" ".join(line.split()) for line in mptctl("evaluate", *files, "--full").stdout.splitlines()]
    place = next(i for i, line in enumerate(lines) if line.startswith("NFR right before"))
    assert lines[place + 1].startswith(f"macro NFR mean over old classes {100 * by_hand:.2f} %")
