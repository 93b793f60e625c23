"""Counting how often verdicts are wrong: `tools.verdict_errors`."""

from __future__ import annotations

from tools.verdict_errors import deciding_share, errors_by_enumeration, errors_of_counts


def test_verdicts_are_wrong_in_at_most_2_5_percent() -> None:
    for passed, failed in (errors_of_counts(20), errors_of_counts(500), errors_by_enumeration(8)):
        assert 0 <= passed <= 0.025
        assert 0 < failed <= 0.025


def test_the_share_of_draws_that_decide_is_counted() -> None:
    # NFR 2 % of 1,000 against 3 %: none are decided with no more samples, nearly all with 20,000.
    table = (880, 20, 50, 50)
    assert deciding_share(table, "max_nfr", 0.03, 0, 20) == 0
    assert deciding_share(table, "max_nfr", 0.03, 20_000, 20) == 1
