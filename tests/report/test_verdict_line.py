"""The last line of a comparison, its numbers, and what fits above it: fixed counts in, text out."""

from __future__ import annotations

import re

import numpy as np
import pytest

from mptctl.evaluation.evaluate import ComparisonRequest, compare
from mptctl.evaluation.flip_report import FlipReport
from mptctl.evaluation.limits import Limits
from mptctl.evaluation.rates import Rate
from mptctl.evaluation.reading.predictions import build_predictions
from mptctl.report.documents.flips import screen_document
from mptctl.report.documents.wording import further_sentences, verdict_line
from mptctl.report.media.numbers import format_count, of_count, p_value, q_value
from tests.report.golden import coloured, piped

OLD, NEW = ("ant", "bee", "cow"), ("emu", "fox")


def counted(flips: int, healed: int, wrong: int, limits: Limits | None = None, n: int = 452) -> FlipReport:
    """So many samples of old classes, and a tenth as many of new ones, with these counts."""
    truth = np.array([OLD[i % 3] for i in range(n)] + [NEW[i % 2] for i in range(n // 10)])
    old, new = truth.copy(), truth.copy()
    new[:flips] = "emu"
    old[flips : flips + healed] = [OLD[(i + 1) % 3] for i in range(flips, flips + healed)]
    both = slice(flips + healed, flips + healed + wrong)
    old[both] = [OLD[(i + 1) % 3] for i in range(both.start, both.stop)]
    new[both] = "fox"
    old[n:] = "ant"
    new[n : n + 3] = "bee"
    ids = np.array([f"test/{i:05d}" for i in range(len(truth))])
    return compare(
        build_predictions("runs/old/best.pt", ids, truth, old, classes=OLD),
        build_predictions("runs/mpt-kl/best.pt", ids, truth, new, classes=(*OLD, *NEW)),
        ComparisonRequest(limits=limits or Limits()),
    )


LINES = [
    ({}, "NFR 0.44 %  (2 of 452, 95 % interval 0.05 to 1.59)"),
    ({"max_nfr": 0.02}, "PASSED  NFR 0.44 % within limit 2 %  (2 of 452, 95 % interval 0.05 to 1.59)"),
    ({"max_nfr": 0.004}, "FAILED  NFR 0.44 % > limit 0.4 %  (2 of 452, 95 % interval 0.05 to 1.59)"),
    (
        {"max_nfr": 0.01, "confidence": 0.9},
        "UNDECIDED  NFR 0.44 %, limit 1 %  (2 of 452, 90 % interval 0.08 to 1.39)",
    ),
    (
        {"max_er_increase": 0.01},
        "PASSED  error on old classes -1.33 points within limit 1 point  (95 % interval -3.06 to +0.20)",
    ),
    (
        {"max_nfr": 0.02, "max_lost": 0.004, "max_er_increase": 0.005},
        "FAILED  lost 0.45 % > limit 0.4 %  (2 of 440, 95 % interval 0.06 to 1.63); kept: NFR 0.44 % within "
        "limit 2 %  (2 of 452, 95 % interval 0.05 to 1.59); error on old classes -1.33 points within limit "
        "0.5 points  (95 % interval -3.06 to +0.20)",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("limits", "line"), LINES)
def test_the_verdict_is_one_line_in_words(limits: dict[str, float], line: str) -> None:
    assert verdict_line(counted(2, 8, 4, Limits(**limits))) == line


def test_four_limits_that_fail_are_all_named() -> None:
    line = verdict_line(counted(40, 8, 4, Limits(max_nfr=0, max_lost=0, max_rel_nfr=0, max_er_increase=0)))
    assert "more" not in line
    assert line.count(" > limit 0 ") == 4


def test_one_model_twice_and_a_rate_that_is_not_defined() -> None:
    assert verdict_line(counted(0, 0, 4)).startswith("NFR 0.00 %  (0 of 452, ")
    never = counted(0, 0, 452, Limits(max_lost=0.1))
    assert verdict_line(never).startswith("FAILED  the old model is wrong on all 452 samples of old classes")
    same = counted(0, 0, 0).model_copy(update={"identical": True})
    assert verdict_line(same).startswith("OLD and NEW are the same model: NFR 0.00 %")


@pytest.mark.parametrize("limits", [Limits(), Limits(max_nfr=0.02), Limits(max_nfr=0.01, confidence=0.9)])
def test_what_a_usual_comparison_says_fits_one_screen_and_the_verdict_is_last(limits: Limits) -> None:
    report = counted(6, 12, 9, limits)
    lines = coloured(screen_document(report)).splitlines()
    # The next prompt is a line too.
    assert len(lines) <= 24 - 1
    text = re.sub("␛\\[[0-9;]*m", "", " ".join(lines))
    assert " ".join(text.split()).endswith(" ".join(verdict_line(report).split()))


def test_in_a_pipe_the_verdict_is_one_line_however_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    report = counted(2, 8, 4, Limits(max_nfr=0.02, max_lost=0.004, max_er_increase=0.005))
    line = piped(screen_document(report)).splitlines()[-1]
    assert line == verdict_line(report)
    assert len(line) > 80


@pytest.mark.parametrize(
    ("flips", "healed", "noise"),
    [(8, 8, True), (57, 86, False), (38, 22, False)],
    ids=["noise", "more than noise", "the interval leaves 0 out, and McNemar's p is 0.052"],
)
def test_what_the_interval_and_the_test_both_allow_is_called_noise(
    flips: int, healed: int, noise: bool
) -> None:
    report = counted(flips, healed, 3, n=2199)
    (said,) = (sentence for sentence in further_sentences(report) if sentence.startswith("Error on old"))
    assert said.endswith("no more than sampling noise.") is noise


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
