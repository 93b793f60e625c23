"""The gate: limits, upper bounds, and rates that are not defined."""

from __future__ import annotations

import numpy as np
import pytest

from mptctl.errors import GateFailed, UsageError
from mptctl.evaluation.gate.check import Scope, check_gate
from mptctl.evaluation.limits import Limits
from tests.evaluation.made_up import flip_table

TABLE = flip_table(880, 20, 50, 50)  # NFR 2 %, ER_old 10 %, ER_new 7 %


@pytest.mark.parametrize("tens", range(10))
def test_a_rate_equal_to_its_limit_in_percent_passes(tens: int) -> None:
    for flips in range(max(10 * tens, 1), 10 * tens + 10):
        limit = float(f"{flips / 10:g}") / 100  # as the command line makes it of --max-nfr 0.7
        assert check_gate(flip_table(950 - flips, flips, 0, 50), Limits(max_nfr=limit)).passed


@pytest.mark.parametrize("level", [1e-9, 0.4999, 1.0, float("nan")])
def test_a_confidence_outside_its_range_is_a_usage_error(level: float) -> None:
    with pytest.raises(UsageError, match="--confidence"):
        Limits(confidence=level)


# With a confidence the two-sided interval answers. Of 20 flips in 1000 it is 1.2258 % to 3.0720 %: 20 or more come up
# with 2.5 % at the first rate, and 20 or fewer at the second.
def test_neither_what_is_undecided_nor_what_is_undefined_passes() -> None:
    both = check_gate(TABLE, Limits(max_nfr=0.025, max_lost=0.001, confidence=0.95))
    assert (both.answer, both.failed) == ("fail", ["max-nfr", "max-lost"])
    undefined = check_gate(flip_table(95, 0, 5, 0), Limits(max_rel_nfr=1, confidence=0.95))
    assert (undefined.answer, undefined.passed) == ("fail", False)
    with pytest.raises(GateFailed, match=r"gate undecided: --max-nfr: NFR 2\.00 %"):
        check_gate(TABLE, Limits(max_nfr=0.025, confidence=0.95)).require_passed()


@pytest.mark.parametrize("name", ["max_nfr", "max_lost", "max_rel_nfr", "max_er_increase"])
@pytest.mark.parametrize("side", [-1, 1])
def test_so_many_more_samples_decide_four_times_in_five(name: str, side: int) -> None:
    value = check_gate(TABLE, Limits(**{name: 0})).checks[0].value  # type: ignore[arg-type]
    assert value is not None
    limits = Limits(**{name: value + side * max(0.005, 0.3 * value)}, confidence=0.95)  # type: ignore[arg-type]
    more = check_gate(TABLE, limits).checks[0].more_samples
    assert more is not None
    cells = np.array([880, 20, 50, 50])
    tables = cells + np.random.default_rng(0).multinomial(more, cells / 1000, size=400)
    answers = [check_gate(flip_table(*row), limits).answer for row in tables.tolist()]
    decided = answers.count("pass" if side > 0 else "fail") / len(answers)
    # Three standard errors of 400 draws are 6 points; of whole counts somewhat more than 80 % decide.
    assert 0.74 <= decided <= 0.92


def test_how_many_more_is_said_with_its_probability_and_its_samples() -> None:
    limits = Limits(max_nfr=0.03, confidence=0.95)
    check = check_gate(TABLE, Limits(), scopes=[Scope("country=de", TABLE, limits, 0)]).checks[0]
    assert (
        f"about {check.more_samples:,} more samples of country=de would settle it with 80 % probability, if the "
        "rate stays the same (a gate that is repeated on more samples no longer has its level)"
    ) in check.message


def test_a_rate_that_equals_its_limit_is_never_decided() -> None:
    check = check_gate(TABLE, Limits(max_nfr=0.02, confidence=0.95)).checks[0]
    assert (check.answer, check.more_samples) == ("undecided", None)
    assert "no number of samples within reach" in check.message
