"""The gate: limits, upper bounds, and rates that are not defined."""

from __future__ import annotations

import math

import numpy as np
import pytest

from mptctl.errors import GateFailed, UsageError
from mptctl.evaluation.gate.check import Scope, check_gate
from mptctl.evaluation.limits import Limits
from mptctl.evaluation.rates import Counts


def counts(both_right: int, negative: int, positive: int, both_wrong: int) -> Counts:
    return Counts(
        both_right=both_right, negative_flips=negative, positive_flips=positive, both_wrong=both_wrong
    )


TABLE = counts(880, 20, 50, 50)  # NFR 2 %, ER_old 10 %, ER_new 7 %


@pytest.mark.parametrize("flips", range(1, 100))
def test_a_rate_equal_to_its_limit_in_percent_passes(flips: int) -> None:
    table = counts(1000 - flips - 50, flips, 0, 50)
    limit = float(f"{flips / 10:g}") / 100  # as the command line makes it of --max-nfr 0.7
    assert check_gate(table, Limits(max_nfr=limit)).passed


def test_every_limit_that_fails_is_named() -> None:
    gate = check_gate(TABLE, Limits(max_nfr=0.01, max_rel_nfr=0.3, max_er_increase=-0.05))
    # Rel-NFR = .02 / (.9 * .07) = 31.7 %; the error falls by 3 points.
    assert gate.failed == ["max-nfr", "max-rel-nfr", "max-er-increase"]
    assert [check.value for check in gate.checks] == pytest.approx([0.02, 0.02 / 0.063, -0.03])
    assert "NFR 2.00 % exceeds the limit of 1 %" in gate.checks[0].message
    one = check_gate(TABLE, Limits(max_nfr=0.03, max_rel_nfr=0.3))
    assert one.failed == ["max-rel-nfr"]


@pytest.mark.parametrize("confidence", [None, 0.95])
def test_a_gate_on_a_rate_that_is_not_defined_fails(confidence: float | None) -> None:
    perfect = counts(95, 0, 5, 0)
    gate = check_gate(perfect, Limits(max_rel_nfr=1.0, confidence=confidence))
    assert gate.failed == ["max-rel-nfr"]
    assert gate.checks[0].value is None
    assert "n/a" in gate.checks[0].message


@pytest.mark.parametrize("level", [0.0, 1e-9, 0.4999, 1.0, 95.0, float("inf"), float("nan")])
def test_a_confidence_outside_its_range_is_a_usage_error(level: float) -> None:
    with pytest.raises(UsageError, match="--confidence"):
        Limits(confidence=level)


@pytest.mark.parametrize(
    ("name", "beyond"),
    [("max_nfr", 1.01), ("max_lost", 1.01), ("max_rel_nfr", None), ("max_er_increase", 1.01)],
)
def test_a_limit_that_is_no_number_or_that_no_rate_can_reach_is_a_usage_error(
    name: str, beyond: float | None
) -> None:
    least = -1.01 if name == "max_er_increase" else -0.01
    for limit in (math.inf, -math.inf, math.nan, least, *([] if beyond is None else [beyond])):
        with pytest.raises(UsageError, match=f"--{name.replace('_', '-')}"):
            Limits(**{name: limit})  # type: ignore[arg-type]


def test_no_flip_of_twenty_has_an_upper_bound_at_every_limit() -> None:
    table = counts(16, 0, 2, 2)
    limits = Limits(max_nfr=0, max_lost=0, max_rel_nfr=0, max_er_increase=-0.1, confidence=0.99)
    gate = check_gate(table, limits)
    assert gate.failed == ["max-nfr", "max-lost", "max-rel-nfr", "max-er-increase"]
    for check in gate.checks:
        assert check.value is not None
        assert check.interval is not None
        assert check.interval[1] > check.value + 0.05
    assert check_gate(table, Limits(max_nfr=0, max_lost=0, max_rel_nfr=0, max_er_increase=-0.1)).passed


class TestThreeAnswers:
    """With a confidence the two-sided interval answers. Of 20 flips in 1000 it is 1.2258 % to 3.0720 %: 20 or more
    come up with 2.5 % at the first rate, and 20 or fewer at the second.
    """

    @pytest.mark.parametrize(
        ("limit", "answer"),
        [(0.0122, "fail"), (0.0123, "undecided"), (0.0307, "undecided"), (0.0308, "pass")],
    )
    def test_the_whole_interval_decides(self, limit: float, answer: str) -> None:
        gate = check_gate(TABLE, Limits(max_nfr=limit, confidence=0.95))
        assert (gate.answer, gate.passed) == (answer, answer == "pass")
        check = gate.checks[0]
        assert check.interval == pytest.approx((0.012258, 0.030720), abs=1e-6)
        assert check.answer == answer
        assert (check.more_samples is None) == (answer != "undecided")
        assert gate.failed == ([] if answer == "pass" else ["max-nfr"])

    def test_neither_what_is_undecided_nor_what_is_undefined_passes(self) -> None:
        both = check_gate(TABLE, Limits(max_nfr=0.025, max_lost=0.001, confidence=0.95))
        assert (both.answer, both.failed) == ("fail", ["max-nfr", "max-lost"])
        undefined = check_gate(counts(95, 0, 5, 0), Limits(max_rel_nfr=1, confidence=0.95))
        assert (undefined.answer, undefined.passed) == ("fail", False)
        with pytest.raises(GateFailed, match=r"gate undecided: --max-nfr: NFR 2\.00 %"):
            check_gate(TABLE, Limits(max_nfr=0.025, confidence=0.95)).require_passed()

    @pytest.mark.parametrize("name", ["max_nfr", "max_lost", "max_rel_nfr", "max_er_increase"])
    @pytest.mark.parametrize("side", [-1, 1])
    def test_so_many_more_samples_decide_four_times_in_five(self, name: str, side: int) -> None:
        value = check_gate(TABLE, Limits(**{name: 0})).checks[0].value  # type: ignore[arg-type]
        assert value is not None
        limits = Limits(**{name: value + side * max(0.005, 0.3 * value)}, confidence=0.95)  # type: ignore[arg-type]
        more = check_gate(TABLE, limits).checks[0].more_samples
        assert more is not None
        added = np.random.default_rng(0).multinomial(more, np.array([880, 20, 50, 50]) / 1000, size=400)
        answers = [
            check_gate(counts(*(n + m for n, m in zip((880, 20, 50, 50), row, strict=True))), limits).answer
            for row in added.tolist()
        ]
        decided = answers.count("pass" if side > 0 else "fail") / len(answers)
        # Three standard errors of 400 draws are 6 points; of whole counts somewhat more than 80 % decide.
        assert 0.74 <= decided <= 0.92

    def test_how_many_more_is_said_with_its_probability_and_its_samples(self) -> None:
        limits = Limits(max_nfr=0.03, confidence=0.95)
        check = check_gate(TABLE, Limits(), scopes=[Scope("country=de", TABLE, limits, 0)]).checks[0]
        assert (
            f"about {check.more_samples:,} more samples of country=de would settle it with 80 % probability, if the "
            "rate stays the same (a gate that is repeated on more samples no longer has its level)"
        ) in check.message
        assert "more samples of old classes would settle" in check_gate(TABLE, limits).checks[0].message

    def test_a_rate_that_equals_its_limit_is_never_decided(self) -> None:
        check = check_gate(TABLE, Limits(max_nfr=0.02, confidence=0.95)).checks[0]
        assert (check.answer, check.more_samples) == ("undecided", None)
        assert "no number of samples within reach" in check.message


class TestConditions:
    """Conditions that fail every limit, and without a limit nothing."""

    def test_one_and_the_same_model(self) -> None:
        same = counts(950, 0, 0, 50)
        gate = check_gate(same, Limits(max_nfr=0.5), identical=True)
        assert gate.failed == ["identical"]
        assert "nothing was compared" in gate.checks[0].message
        assert (gate.checks[0].limit, gate.checks[0].value) == (None, None)
        assert check_gate(same, Limits(), identical=True).passed
        assert check_gate(same, Limits(confidence=0.9), identical=True).passed
        assert check_gate(same, Limits(max_nfr=0.5, allow_identical=True), identical=True).passed
        assert check_gate(TABLE, Limits(max_nfr=0.01, allow_identical=True), identical=True).failed == [
            "max-nfr"
        ]
