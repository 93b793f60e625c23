"""Counting how often verdicts are wrong: `tests.simulations.verdict_errors`."""

from __future__ import annotations

import pytest

from mptctl.evaluation.limits import LIMITS
from tests.simulations import verdict_errors
from tests.simulations.verdict_errors import (
    deciding_share,
    errors_of_counts,
    errors_of_increase,
    errors_of_ratio,
)


def test_verdicts_are_wrong_in_at_most_2_5_percent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verdict_errors, "DRAWS", 200)
    for passed, failed in (errors_of_counts(20), errors_of_ratio(8)):
        assert 0 <= passed <= 0.025
        assert 0 < failed <= 0.025
    # Three standard errors of 200 draws are 3.3 points.
    assert max(errors_of_ratio(200)) <= 0.025 + 0.033


def test_an_error_increase_is_passed_or_failed_wrongly_in_at_most_2_5_percent() -> None:
    """Among the true shares are 2 % negative flips and no positive ones; half of the samples are wrong in both."""
    for n in (20, 100):
        passed, failed = errors_of_increase(n)
        assert 0 < passed <= 0.025
        # A fail is a pass of the two models in exchanged roles.
        assert abs(failed - passed) < 1e-9


def test_the_share_of_draws_that_decide_is_counted() -> None:
    # NFR 2 % of 1,000 against 3 %: none are decided with no more samples, nearly all with 20,000.
    nfr = next(kind for kind in LIMITS if kind.key == "max_nfr")
    shares = [deciding_share((880, 20, 50, 50), nfr, 0.03, more, 20) for more in (0, 20_000)]
    assert shares == [0, 1]
