"""Numbers as text: small ones are not written as zeros, and bounds are not rounded to the wrong side."""

from __future__ import annotations

import pytest

from mptctl.evaluation.rates import Rate
from mptctl.report.media.numbers import format_count, of_count, p_value, q_value


@pytest.mark.parametrize(
    ("of", "text"),
    [(452, "452"), (1200, "1,200"), (4.04, "4.0"), (0.96, "0.96"), (0.04, "0.04"), (0.0, "0.0")],
)
def test_a_denominator_that_is_expected_is_no_zero(of: float, text: str) -> None:
    rate = Rate(count=2, of=of, value=None, ci95=None)
    assert format_count(rate) == f"2 / {text}"
    assert of_count(rate).startswith(f"2 of {text}")


@pytest.mark.parametrize(
    ("p", "text", "q"),
    [(0.042, "p = 0.042", "0.042"), (4.2e-5, "p = 4.2e-05", "4e-05"), (0.0, "p < 1e-300", "< 1e-300")],
)
def test_a_p_value_is_no_zero(p: float, text: str, q: str) -> None:
    assert (p_value(p), q_value(p)) == (text, q)
