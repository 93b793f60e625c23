"""Rates and limits say once what they are: every report and every check takes it from there."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from mptctl.evaluation.evaluate import compare
from mptctl.evaluation.gate.check import check_gate
from mptctl.evaluation.limits import LIMITS, Limits
from mptctl.evaluation.rates import Counts, Rates
from mptctl.evaluation.reading.predictions import Predictions
from mptctl.report.documents.flips_markdown import render_markdown
from mptctl.report.documents.flips_page import render_html
from tests.report.rendered import print_screen

TABLE = Counts(both_right=5, negative_flips=2, positive_flips=1, both_wrong=2)


def test_every_rate_of_a_report_is_in_every_rendering(twenty: tuple[Predictions, Predictions]) -> None:
    report = compare(*twenty)
    console = Console(width=80, file=io.StringIO())
    print_screen(report, console)
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    worded = report.rates.worded()
    assert len(worded) == len(Rates.model_fields)
    for wording, _ in worded:
        for text in (shown, render_markdown(report), render_html(report)):
            assert wording.title in text
            assert wording.meaning in text


def test_every_limit_has_its_row_in_the_table() -> None:
    fields = {name for name in Limits.model_fields if name.startswith("max_")}
    assert {kind.key for kind in LIMITS} == fields


@pytest.mark.parametrize("kind", LIMITS, ids=lambda kind: kind.key)
def test_every_limit_can_fail_and_can_pass(kind: object) -> None:
    key, name, high = kind.key, kind.name, kind.high  # type: ignore[attr-defined]
    assert check_gate(TABLE, Limits(**{key: 0.01})).failed == [name]
    assert check_gate(TABLE, Limits(**{key: float(high or 10)})).passed
    assert check_gate(TABLE, Limits(**{key: 0.5, "confidence": 0.999})).failed == [name]
