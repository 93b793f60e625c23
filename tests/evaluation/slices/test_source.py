"""Slices: their flip tables by hand, their test against a second opinion, and files that cannot be sliced."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import fisher_exact

from mptctl.errors import UsageError
from mptctl.evaluation.evaluate import ComparisonRequest, compare
from mptctl.evaluation.flip_report import FlipReport
from mptctl.evaluation.rates import Counts
from mptctl.evaluation.reading.predictions import Predictions
from mptctl.evaluation.slices.ranking import LEVEL, SliceRequest, rank_slices
from mptctl.evaluation.slices.source import Slice
from tests.evaluation.files import write
from tests.evaluation.made_up import answers, flip_table

Pair = tuple[Predictions, Predictions]
DRAWS = int(os.environ.get("MPTCTL_DRAWS", "40"))
# Of `twenty`: samples 1 to 14 are of old classes, and s04, s05, s08, s09, s10 (right before) are the rows below.
IDS = [f"s{i:02d}" for i in range(1, 21)]
# The first seven of class a are German, the sevens of b Italian but for the last, which has no country.
COUNTRY = ["de"] * 7 + ["it"] * 6 + [""] + ["fr"] * 6
DEVICE = ["x", "y"] * 10


def sliced(pair: Pair, path: Path, by: list[tuple[str, ...]], **keys: Any) -> FlipReport:
    request = SliceRequest(by, [path], keys.pop("min_slice", 1), **keys)
    return compare(*pair, ComparisonRequest(slicing=request))


def test_by_hand(twenty: Pair, path: Path) -> None:
    """Class a: of s01 to s05 right before, s04 and s05 flip. Class b: s08 to s11 and s14, of which s09 flips."""
    write(path, id=IDS[::-1], country=COUNTRY[::-1])
    rows = {row.by["country"]: row for row in sliced(twenty, path, [("country",)]).slices}
    assert set(rows) == {"de", "it", ""}  # fr has no sample of an old class
    found = {key: (row.n, row.negative_flips, row.old_right) for key, row in rows.items()}
    assert found == {"de": (7, 2, 5), "it": (6, 1, 4), "": (1, 0, 1)}
    assert rows["de"].nfr == pytest.approx(2 / 7)
    assert rows["de"].lost == pytest.approx(2 / 5)
    # P(at least 2 of the 3 flips among 7 of 14) = (C(7,2) C(7,1) + C(7,3)) / C(14,3) = 182 / 364
    assert rows["de"].p == pytest.approx(0.5)
    # ... and at least 1 among 6: 1 - C(8,3) / C(14,3); at least none: 1
    assert rows["it"].p == pytest.approx(1 - 56 / 364)
    assert rows[""].p == pytest.approx(1)
    # By Benjamini and Hochberg: 3/1 * 0.5 = 1.5 and 3/2 * .846 = 1.27 are cut to the last, 1.
    assert [row.q for row in rows.values()] == pytest.approx([1, 1, 1])


def test_class_confidence_and_crossings(twenty: Pair, path: Path) -> None:
    write(path, id=IDS, country=COUNTRY, device=DEVICE)
    report = sliced(twenty, path, [("class",), ("confidence",), ("country", "device")])
    found = {tuple(row.by.items()): (row.n, row.negative_flips) for row in report.slices}
    assert found[("class", "a"),] == (7, 2)
    assert found[("class", "b"),] == (7, 1)
    assert found[("confidence", "0.9 to 0.99"),] == (5, 1)  # s01, s02, s08, s09, s14
    assert found[("confidence", "0.7 to 0.9"),] == (5, 1)  # s03, s04, s07, s10, s13
    assert found[("confidence", "0.5 to 0.7"),] == (4, 1)  # s05, s06, s11, s12
    assert found[("country", "de"), ("device", "x")] == (4, 1)  # s01, s03, s05, s07
    assert found[("country", "de"), ("device", "y")] == (3, 1)  # s02, s04, s06
    assert sum(n for key, (n, _) in found.items() if len(key) == 2) == 14


def test_a_crossing_in_two_orders_is_tested_once(twenty: Pair, path: Path) -> None:
    write(path, id=IDS, country=COUNTRY, device=DEVICE)
    once = sliced(twenty, path, [("country",), ("country", "device")])
    twice = sliced(twenty, path, [("country",), ("country", "device"), ("device", "country")])
    assert twice.slices == once.slices
    assert once.slices


@pytest.mark.parametrize("form", [".npz", ".parquet"])
def test_booleans_are_true_and_false_in_all_forms_that_have_them(
    twenty: Pair, tmp_path: Path, form: str
) -> None:
    path = write(tmp_path / f"side{form}", id=IDS, flag=[True] * 5 + [False] * 15)
    rows = {row.by["flag"]: row.n for row in sliced(twenty, path, [("flag",)]).slices}
    assert rows == {"true": 5, "false": 9}  # of samples 1 to 14


def made(flips: np.ndarray, n: Any) -> tuple[list[Slice], Counts]:
    """Slices with so many flips of n samples each, and the counts of all together."""
    n = np.broadcast_to(n, flips.shape)
    tables = [flip_table(m - k, k, 0, 0) for k, m in zip(flips.tolist(), n.tolist(), strict=True)]
    whole = flip_table(int((n - flips).sum()), int(flips.sum()), 0, 0)
    return [Slice({"s": str(i)}, table) for i, table in enumerate(tables)], whole


@pytest.mark.parametrize("seed", range(5))
def test_p_is_fishers_and_q_is_benjamini_and_hochberg_s(seed: int) -> None:
    rng = np.random.default_rng(seed)
    n, flips = rng.integers(5, 200, 30), rng.integers(0, 5, 30)
    slices, whole = made(flips, n)
    ranked = rank_slices(slices, whole)
    assert [row.q for row in ranked] == sorted(row.q for row in ranked)
    assert [row.worse for row in ranked] == [row.q < LEVEL for row in ranked]
    rows = {int(row.by["s"]): row for row in ranked}
    p = np.array([rows[i].p for i in range(30)])
    for i in range(30):
        rest = (flips.sum() - flips[i], n.sum() - n[i] - flips.sum() + flips[i])
        table = [[flips[i], n[i] - flips[i]], list(rest)]
        assert p[i] == pytest.approx(fisher_exact(table, alternative="greater").pvalue)
    order = np.argsort(p)
    by_hand = np.minimum.accumulate((p[order] * 30 / np.arange(1, 31))[::-1])[::-1].clip(max=1)
    assert [rows[i].q for i in order.tolist()] == pytest.approx(by_hand)


def test_a_planted_slice_is_found_and_nothing_else() -> None:
    """200 slices of 500, flips 4 %, in one of them 12 %: power and false discoveries."""
    rng, draws = np.random.default_rng(1), DRAWS
    found, false_share, none_planted = 0, 0.0, 0
    for _ in range(draws):
        rates = np.full(200, 0.04)
        none_planted += any(row.worse for row in rank_slices(*made(rng.binomial(500, rates), 500)))
        rates[0] = 0.12
        worse = [row.by["s"] for row in rank_slices(*made(rng.binomial(500, rates), 500)) if row.worse]
        found += "0" in worse
        false_share += sum(name != "0" for name in worse) / max(1, len(worse))
    print(f"{draws} draws: found {found}, false {false_share / draws:.3f}, nothing there {none_planted}")
    assert found >= 0.95 * draws
    assert false_share / draws <= 0.07
    assert none_planted / draws <= 0.125  # 7 % and two standard errors of 40 draws


def test_more_values_than_slices(tmp_path: Path) -> None:
    n = 10_001
    write(tmp_path / "m.npz", id=np.arange(n), price=np.arange(n))
    one, other = (answers("m", [0] * n, [pred] * n, classes=("0", "1")) for pred in (0, 1))
    with pytest.raises(UsageError, match=r"--by price: more than 10,000 different values"):
        sliced((one, other), tmp_path / "m.npz", [("price",)])
