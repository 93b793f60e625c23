"""Causes of flips in words, for every report that shows them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from mptctl.evaluation.flip_report import Cause, FlipReport
from mptctl.evaluation.rates import Rate
from mptctl.report.media.numbers import format_count

MEANINGS: Mapping[Cause, str] = {
    "noise": "OLD trained again flips it too",
    "label doubtful": "NEW, a plain update and OLD's second choice agree",
    "bias": "a shift of the new classes heals it",
    "new class": "a new class is above the right one, no old one",
    "old classes": "one old class is above the right one",
    "forgotten": "several old classes are above the right one",
}


@dataclass(frozen=True)
class CauseLine:
    """One line of the table of causes."""

    name: str
    meaning: str
    flips: Rate | None

    @property
    def count(self) -> str:
        """How many of all flips, or that nobody looked."""
        return "not tried" if self.flips is None else format_count(self.flips)


def cause_lines(report: FlipReport) -> list[CauseLine]:
    """Every cause in the order in which the rules are tried; none where nothing flipped or no cause was looked for."""
    if report.causes is None or not report.counts.negative_flips:
        return []
    return [CauseLine(row.cause, MEANINGS[row.cause], row.flips) for row in report.causes.rows]


def causes_sentence(report: FlipReport) -> str:
    """What the table rests on."""
    if report.causes is None:
        return ""
    said = "A flip counts under the first rule that fits it; a rule is no proof."
    if report.causes.bias is not None:
        said += f" The shift, {report.causes.bias:.4g}, was chosen on the validation part."
    if report.causes.not_tried:
        said += f" Not tried: {', '.join(report.causes.not_tried)}."
    return said
