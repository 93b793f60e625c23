"""The gate of an old model that may not know every label: the stricter of two verdicts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import mptctl
from mptctl.evaluation.gate.check import check_gate, stricter_gate
from mptctl.evaluation.limits import Limits
from mptctl.evaluation.rates import Counts
from tests.common import CommandLine
from tests.evaluation.files import write

pytestmark = pytest.mark.filterwarnings("ignore::mptctl.errors.ComparisonWarning")
# 1,000 samples of which OLD gets the 100 of the classes a and c right, and never predicts b.
LABELS = np.array(["a"] * 50 + ["c"] * 50 + ["b"] * 900)
OLD = np.where(LABELS == "b", "a", LABELS)


def with_flips(flips: int) -> np.ndarray:
    return np.where(np.arange(1000) < flips, "b", OLD)


def saved(folder: Path, flips: int) -> tuple[Path, Path]:
    ids = list(range(1000))
    return (
        write(folder / "old.npz", id=ids, label=LABELS, pred=OLD),
        write(folder / "new.npz", id=ids, label=LABELS, pred=with_flips(flips)),
    )


def test_a_reading_that_fails_is_stricter_than_one_that_is_undecided(
    tmp_path: Path, mptctl: CommandLine
) -> None:
    """10 of 1,000 is at the limit of 1 %; 10 of 100 has the interval 4.90 to 17.62 %, all above."""
    done = mptctl("evaluate", *saved(tmp_path, 10), "--max-nfr", "1", "--confidence", "0.95", "--json")
    report = json.loads(done.stdout)
    gate = report["gate"]
    assert (done.returncode, gate["answer"], gate["failed"]) == (3, "fail", ["max-nfr", "old-classes"])
    assert [check["answer"] for check in gate["checks"]] == ["undecided", "fail"]
    assert "NFR 10.00 % (95 % interval 4.90 to 17.62 %) exceeds the limit of 1 %" in done.stderr
    assert "gate failed: " in done.stderr
    assert any("and the verdict differs; the stricter one is used" in text for text in report["warnings"])


def test_a_reading_that_fails_is_stricter_in_python() -> None:
    gate = mptctl.evaluate(LABELS, old=OLD, new=with_flips(10)).gate(max_nfr=0.01, confidence=0.95)
    assert (gate.answer, gate.passed, gate.failed) == ("fail", False, ["max-nfr", "old-classes"])
    # The reading that fails still fails where undecided limits pass.
    let = mptctl.evaluate(LABELS, old=OLD, new=with_flips(10)).gate(
        max_nfr=0.01, confidence=0.95, undecided="pass"
    )
    assert (let.answer, let.passed, let.failed) == ("fail", False, ["old-classes"])


def test_an_undecided_reading_says_how_many_samples_would_settle_it(
    tmp_path: Path, mptctl: CommandLine
) -> None:
    """1 of 1,000 is within 2 %; 1 of 100 is undecided, and needs as many more as if it were all there is."""
    alone = check_gate(
        Counts(both_right=99, negative_flips=1, positive_flips=0, both_wrong=0),
        Limits(max_nfr=0.02, confidence=0.95),
    ).checks[0]
    assert alone.more_samples is not None
    words = ("evaluate", *saved(tmp_path, 1), "--max-nfr", "2", "--confidence", "0.95")
    gate = json.loads(mptctl(*words, "--json").stdout)["gate"]
    assert (gate["answer"], gate["failed"]) == ("undecided", ["old-classes"])
    assert gate["checks"][1]["more_samples"] == alone.more_samples
    done = mptctl(*words)
    number = f"bout {alone.more_samples:,} more samples "
    assert f"A{number}would settle the verdict on the labels that OLD predicts" in " ".join(
        done.stdout.split()
    )
    assert f"a{number}" in done.stderr
    let = mptctl(*words, "--undecided", "pass", "--json")
    gate = json.loads(let.stdout)["gate"]
    assert (let.returncode, gate["answer"], gate["passed"], gate["failed"]) == (0, "undecided", True, [])


def test_no_number_is_given_where_one_of_two_undecided_limits_has_none() -> None:
    """At the limit of exactly its rate, 20 of 900, no number of samples settles the second one."""
    table = Counts(both_right=880, negative_flips=20, positive_flips=50, both_wrong=50)
    both = check_gate(table, Limits(max_nfr=0.025, max_lost=20 / 900, confidence=0.95))
    assert [check.more_samples is None for check in both.checks] == [False, True]
    assert stricter_gate(check_gate(table, Limits()), both, "say so").checks[0].more_samples is None
