"""Every row of the table of limits, in whatever speaks of limits: a new row needs nothing else to be spoken of."""

from __future__ import annotations

from datetime import date

import pytest

from mptctl.evaluation.gate.draft import draft_gate_file
from mptctl.evaluation.gate.gate_file import FileLimits
from mptctl.evaluation.limits import LIMITS, LimitKind, Limits
from mptctl.evaluation.rates import Rates
from mptctl.report.documents.wording import verdict_line, verdict_sentences
from tests.report.test_verdict_line import counted


@pytest.mark.parametrize("kind", LIMITS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("limit", [0.0, 0.9])
def test_a_limit_is_checked_said_drafted_and_read_from_a_file(kind: LimitKind, limit: float) -> None:
    report = counted(20, 8, 10, Limits(**{kind.key: limit}))
    (check,) = report.gate.checks
    assert (check.name, check.passed) == (kind.name, limit == 0.9)
    first = verdict_sentences(report)[0]
    assert first.startswith(f"{kind.name}: ") or kind.title in first
    line = verdict_line(report)
    assert line.startswith("PASSED  " if limit == 0.9 else "FAILED  ")
    if kind.rate:
        rate = getattr(report.rates, kind.rate)
        assert line.split("  ")[1].startswith(f"{kind.short} {100 * (rate.value or 0):.2f} %")
    both = counted(20, 8, 10, Limits(**{kind.key: limit, "max_nfr": 0.9, "max_lost": 0.9}))
    assert "limit" in verdict_line(both)
    drafted = draft_gate_file(report, date(2026, 1, 1))
    assert f"  {kind.key}: " in drafted
    assert kind.meaning in drafted
    assert FileLimits.model_validate({kind.key: 100 * limit}).fractions() == {kind.key: limit}


def test_every_rate_that_is_limited_is_a_rate_of_the_report() -> None:
    assert {kind.rate for kind in LIMITS if kind.rate} <= set(Rates.model_fields)
