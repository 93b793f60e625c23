"""Counting how often verdicts are wrong: `tests.simulations.verdict_errors`."""

from __future__ import annotations

from scipy.stats import multinomial

from mptctl.evaluation.gate.check import check_gate
from mptctl.evaluation.limits import Limits
from mptctl.evaluation.rates import Counts
from tests.simulations.verdict_errors import (
    deciding_share,
    errors_by_enumeration,
    errors_of_counts,
    errors_of_increase,
)


def test_verdicts_are_wrong_in_at_most_2_5_percent() -> None:
    for passed, failed in (errors_of_counts(20), errors_of_counts(500), errors_by_enumeration(8)):
        assert 0 <= passed <= 0.025
        assert 0 < failed <= 0.025


def test_an_error_increase_with_shared_errors_and_no_positive_flips_passes_wrongly_in_at_most_2_5_percent() -> (
    None
):
    # True: 2 % negative flips, no positive ones, both wrong 50 %; so just above a limit of 2 points.
    n, passed = 100, 0.0
    limits = Limits(max_er_increase=0.02 - 1e-9, confidence=0.95)
    for negative in range(13):
        for both_wrong in range(20, 81):
            right = n - negative - both_wrong
            table = Counts(both_right=right, negative_flips=negative, positive_flips=0, both_wrong=both_wrong)
            if check_gate(table, limits).answer == "pass":
                passed += multinomial.pmf([right, negative, both_wrong], n, [0.48, 0.02, 0.5])
    assert passed <= 0.025


def test_an_error_increase_is_passed_or_failed_wrongly_in_at_most_2_5_percent() -> None:
    for n in (20, 100):
        passed, failed = errors_of_increase(n)
        assert 0 < passed <= 0.025
        # A fail is a pass of the two models in exchanged roles.
        assert abs(failed - passed) < 1e-9


def test_the_share_of_draws_that_decide_is_counted() -> None:
    # NFR 2 % of 1,000 against 3 %: none are decided with no more samples, nearly all with 20,000.
    table = (880, 20, 50, 50)
    assert deciding_share(table, "max_nfr", 0.03, 0, 20) == 0
    assert deciding_share(table, "max_nfr", 0.03, 20_000, 20) == 1
