"""The gate: limits, upper bounds, and rates that are not defined."""

from __future__ import annotations

import pytest

from mptctl.errors import UsageError
from mptctl.evaluation.gate import Limits, check_gate
from mptctl.evaluation.statistics import wilson
from mptctl.evaluation.summary import Counts


def counts(both_right: int, negative: int, positive: int, both_wrong: int) -> Counts:
    return Counts(
        both_right=both_right, negative_flips=negative, positive_flips=positive, both_wrong=both_wrong
    )


TABLE = counts(880, 20, 50, 50)  # NFR 2 %, ER_old 10 %, ER_new 7 %


def test_no_limit_passes() -> None:
    gate = check_gate(TABLE, Limits())
    assert (gate.passed, gate.failed, gate.checks, gate.max_nfr) == (True, [], [], None)


@pytest.mark.parametrize(("limit", "passed"), [(0.0199, False), (0.02, True), (0.03, True)])
def test_nfr_is_held_against_its_limit(limit: float, passed: bool) -> None:
    gate = check_gate(TABLE, Limits(max_nfr=limit))
    assert gate.passed is passed
    assert gate.failed == ([] if passed else ["max-nfr"])
    assert gate.max_nfr == limit


@pytest.mark.parametrize("flips", range(1, 100))
def test_a_rate_equal_to_its_limit_in_percent_passes(flips: int) -> None:
    table = counts(1000 - flips - 50, flips, 0, 50)
    limit = float(f"{flips / 10:g}") / 100  # as the command line makes it of --max-nfr 0.7
    assert check_gate(table, Limits(max_nfr=limit)).passed


def test_with_a_confidence_the_upper_bound_must_pass() -> None:
    bound = wilson(20, 1000, 0.95)
    assert bound is not None
    assert check_gate(TABLE, Limits(max_nfr=0.025)).passed
    gate = check_gate(TABLE, Limits(max_nfr=0.025, confidence=0.95))
    assert not gate.passed
    assert gate.checks[0].value == pytest.approx(0.02)
    assert gate.checks[0].tested == pytest.approx(bound[1])
    assert check_gate(TABLE, Limits(max_nfr=bound[1] + 1e-6, confidence=0.95)).passed
    assert not check_gate(TABLE, Limits(max_nfr=bound[1] + 1e-6, confidence=0.99)).passed


def test_every_limit_that_fails_is_named() -> None:
    gate = check_gate(TABLE, Limits(max_nfr=0.01, max_rel_nfr=0.3, max_er_increase=-0.05))
    # Rel-NFR = .02 / (.9 * .07) = 31.7 %; the error falls by 3 points.
    assert gate.failed == ["max-nfr", "max-rel-nfr", "max-er-increase"]
    assert [check.value for check in gate.checks] == pytest.approx([0.02, 0.02 / 0.063, -0.03])
    assert "NFR 2.00% exceeds the limit of 1%" in gate.checks[0].message
    one = check_gate(TABLE, Limits(max_nfr=0.03, max_rel_nfr=0.3))
    assert one.failed == ["max-rel-nfr"]


def test_error_increase_uses_the_bootstrap_bound() -> None:
    assert check_gate(TABLE, Limits(max_er_increase=-0.029)).passed
    gate = check_gate(TABLE, Limits(max_er_increase=-0.029, confidence=0.95))
    assert gate.failed == ["max-er-increase"]
    tested = gate.checks[0].tested
    assert tested is not None
    assert -0.03 < tested < 0


@pytest.mark.parametrize("confidence", [None, 0.95])
def test_a_gate_on_a_rate_that_is_not_defined_fails(confidence: float | None) -> None:
    perfect = counts(95, 0, 5, 0)
    gate = check_gate(perfect, Limits(max_rel_nfr=1.0, confidence=confidence))
    assert gate.failed == ["max-rel-nfr"]
    assert gate.checks[0].value is None
    assert "n/a" in gate.checks[0].message


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0, float("nan")])
def test_a_confidence_outside_its_range_is_a_usage_error(level: float) -> None:
    with pytest.raises(UsageError, match="--confidence"):
        Limits(confidence=level)
