"""Differences to one row: by hand, against what the draws of two rows give, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

from mptctl.errors import UsageError
from mptctl.studies.compare import compare_runs
from mptctl.studies.comparison import BIAS_ROW, COLUMNS
from tests.common import CommandLine
from tests.studies.made_runs import CLASSES, NUM_OLD, made_part, made_run, made_seed

# Four samples of old classes, which the old model gets right, and one of a new class.
LABEL = np.array([0, 1, 2, 0, 3])


def answering(root: Path, name: str, seed: int, answers: list[int], **keys: object) -> None:
    part = made_part(LABEL, np.eye(CLASSES)[answers][:, : NUM_OLD if name == "old" else CLASSES])
    method = "no-treatment" if name == "old" else name
    made_run(root / name, method, seed, part, part, **keys)  # type: ignore[arg-type]


def test_by_hand(tmp_path: Path) -> None:
    for seed, plain, mpt in ((1, [3, 3, 2, 0, 3], [3, 1, 2, 0, 0]), (2, [3, 3, 3, 0, 3], [0, 1, 2, 0, 3])):
        answering(tmp_path / str(seed), "old", seed, [0, 1, 2, 0, 0], old=None, num_known=NUM_OLD)
        answering(tmp_path / str(seed), "no-treatment", seed, plain)
        answering(tmp_path / str(seed), "mpt-nodistill", seed, mpt)
    found = compare_runs([tmp_path / "1", tmp_path / "2"], against="no-treatment")
    assert found.against == "no-treatment"
    rows = {row.name: row for row in found.rows}
    assert rows["no-treatment"].differences is None
    apart = rows["mpt-nodistill"].differences
    assert apart is not None
    # Flips of four: 1 and 0, and of the plain update 2 and 3. Errors of five: 2 and 0, and 2 and 3.
    assert apart["nfr"].mean == pytest.approx(1 / 8 - 5 / 8, abs=1e-12)
    assert apart["er_old"].mean == pytest.approx(1 / 8 - 5 / 8, abs=1e-12)
    assert apart["er_all"].mean == pytest.approx(2 / 10 - 5 / 10, abs=1e-12)
    # Without an error on old classes the relative rate has no denominator.
    assert apart["rel_nfr"].mean is None


def test_of_three_seeds_the_interval_contains_students_and_rows_of_one_and_two_seeds_have_others(
    tmp_path: Path,
) -> None:
    for seed in (1, 2, 3):
        made_seed(tmp_path / str(seed), seed, {"no-treatment": 1.0, "mpt-kl": 3.0, "pct-kl": 2.9})
    rows = {row.name: row for row in compare_runs([tmp_path], against="mpt-kl").rows}
    for name in ("no-treatment", "pct-kl"):
        apart = rows[name].differences
        assert apart is not None
        for column in COLUMNS:
            values = np.subtract(getattr(rows[name], column).values, getattr(rows["mpt-kl"], column).values)
            low, high = scipy.stats.t.interval(0.95, 2, values.mean(), scipy.stats.sem(values))
            one = apart[column]
            assert one.values == pytest.approx(values.tolist(), abs=1e-12)
            assert one.seeds == 3
            assert one.mean == pytest.approx(values.mean(), abs=1e-12)
            assert one.low is not None
            assert one.high is not None
            # The samples add to it what the seeds have in common; here each seed has its own, and that is little.
            assert one.low <= low + 1e-12
            assert one.high >= high - 1e-12
            assert one.high - one.low < 1.2 * (high - low) + 0.02
    # The same of two seeds: both differences, and no interval; of one: the draw of its samples.
    two = {row.name: row for row in compare_runs([tmp_path / "1", tmp_path / "2"], against="mpt-kl").rows}
    one_seed = {row.name: row for row in compare_runs([tmp_path / "1"], against="mpt-kl").rows}
    of_two, of_one = two["pct-kl"].differences, one_seed["pct-kl"].differences
    assert of_two is not None
    assert of_one is not None
    assert (of_two["nfr"].low, of_two["nfr"].high, len(of_two["nfr"].values)) == (None, None, 2)
    assert of_one["nfr"].low is not None
    assert of_one["nfr"].values == [of_one["nfr"].mean]


def test_only_seeds_that_both_have_count_and_of_none_there_is_no_difference(tmp_path: Path) -> None:
    made_seed(tmp_path / "1", 1, {"no-treatment": 2.0, "mpt-kl": 3.0})
    made_seed(tmp_path / "2", 2, {"no-treatment": 2.0, "pct-kl": 2.0})
    rows = {row.name: row for row in compare_runs([tmp_path], against="mpt-kl").rows}
    plain, mpt = rows["no-treatment"], rows["mpt-kl"]
    assert plain.differences is not None
    assert plain.nfr.values[0] is not None
    assert mpt.nfr.values[0] is not None
    assert plain.differences["nfr"].mean == pytest.approx(plain.nfr.values[0] - mpt.nfr.values[0], abs=1e-12)
    assert rows["pct-kl"].differences is None


def test_what_is_refused(tmp_path: Path) -> None:
    made_seed(tmp_path / "a", 1, {"no-treatment": 3.0, "mpt-kl": 2.0})
    with pytest.raises(UsageError, match=r"^--against mpt-k: no such row; did you mean mpt-kl\?$"):
        compare_runs([tmp_path / "a"], against="mpt-k")
    found = compare_runs([tmp_path / "a"], against=BIAS_ROW)
    assert all(row.differences for row in found.rows if row.name != BIAS_ROW)
    # At one error there is no row of the bias.
    with pytest.raises(UsageError, match=r"--against plain, bias taken off: no such row"):
        compare_runs([tmp_path / "a"], equal_error="mpt-kl", against=BIAS_ROW)
    made_seed(tmp_path / "b", 1, {"mpt-kl": 2.0}, settings={"method.k": 2.5}, digest="b")
    with pytest.raises(UsageError, match="--against mpt-kl: 2 rows of other settings have that name"):
        compare_runs([tmp_path / "a", tmp_path / "b"], against="mpt-kl")


def test_from_the_command_line_also_at_one_error(tmp_path: Path, mptctl: CommandLine) -> None:
    for seed in (1, 2, 3):
        made_seed(tmp_path / str(seed), seed, {"no-treatment": 2.0, "mpt-kl": 5.0, "pct-kl": 2.0})
    words = ("compare", tmp_path, "--equal-error", "no-treatment", "--against", "no-treatment")
    page = json.loads(mptctl(*words, "--json").stdout)
    assert page["against"] == "no-treatment"
    apart = {row["name"]: row["differences"] for row in page["rows"]}
    assert apart["no-treatment"] is None
    assert list(apart["mpt-kl"]) == list(COLUMNS)
    assert apart["mpt-kl"]["nfr"]["high"] < 0
    done = mptctl(*words)
    assert done.returncode == 0, done.stderr
    said = " ".join(done.stdout.split())
    assert "Fewer flips than no-treatment at the validation error of no-treatment: " in said
