"""The draft of a gate file: limits that a comparison just keeps, with slices and flips as examples."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date

from mptctl.evaluation.flip_report import FlipReport
from mptctl.evaluation.limits import LIMITS
from mptctl.evaluation.rates import Counts
from mptctl.evaluation.statistics import exact_interval

# Interval level of the drafted limits.
LEVEL = 0.95
# Most slices, and most flips, that are written as examples.
EXAMPLES = 5


def draft_gate_file(report: FlipReport, today: date) -> str:
    """Write the text of a gate file whose limits are the upper ends of a comparison's intervals, rounded up.

    Args:
        report: the comparison, which keeps the drafted limits.
        today: the waivers in comments expire a year later.
    """
    in_a_year = date(today.year + 1, today.month, min(today.day, 28))
    lines = [
        "# What a replacement must keep to: mptctl evaluate OLD NEW --gate FILE",
        f"# Limits that {_comment(report.new.name)} just keeps to, against {_comment(report.old.name)}.",
        "# Set them to what you can bear; they are a measurement, not advice.",
        "",
        "# The whole interval at this level must lie within a limit. Without it the rate itself decides.",
        f"confidence: {LEVEL}",
        "",
        "limits:",
        *_limit_lines(report.counts),
        "",
        "# Slices with limits of their own: columns of the predictions or of --metadata FILE, or class.",
    ]
    if report.slices:
        lines.append("slices:")
        for row in report.slices[:EXAMPLES]:
            low, high = exact_interval(row.negative_flips, row.n, LEVEL)
            lines.append(
                f"  - {{by: {_as_yaml_mapping(row.by)}, max_nfr: {_percent_up(high)}}}"
                f"  # {row.negative_flips} of {row.n}, {100 * low:.2f} to {100 * high:.2f} %"
            )
    else:
        lines += ["# slices:", "#   - {by: {country: de}, max_nfr: 1.0}"]
    lines += [
        "",
        "# Samples that may not flip at all: by id, in a file of ids beside this one, or a slice.",
        "# must_keep:",
        "#   ids: [test/00042]",
        "#   file: must_keep.txt",
        "#   by: {customer: gold}",
        "",
        "# Flips that were agreed to. After its last day a waiver fails the gate if a flip still needs it.",
        "# waivers:",
    ]
    ids = [flip.id for flip in report.worst_flips[:EXAMPLES]] or ["test/00042"]
    lines += [
        f'#   - {{id: {_as_yaml_text(each)}, reason: "...", owner: ..., expires: {in_a_year}}}'
        for each in ids
    ]
    return "\n".join(lines) + "\n"


def _limit_lines(counts: Counts) -> list[str]:
    """Write a line for each kind of limit; a comment where the rate is not defined."""
    lines = []
    for kind in LIMITS:
        value, interval = kind.value(counts, counts.negative_flips), None
        if value is not None:
            interval = kind.interval(counts, counts.negative_flips, LEVEL)
        if value is None or interval is None:
            lines.append(f"  # {kind.key}: not defined here  # {kind.meaning}")
            continue
        most = math.inf if kind.high is None else 100 * kind.high
        limit = min(_percent_up(interval[1]), most)
        measured = f"now {100 * value:.2f}, {100 * interval[0]:.2f} to {100 * interval[1]:.2f}"
        lines.append(f"  {kind.key}: {limit:g}  # {kind.meaning}; {measured}")
    return lines


def _percent_up(fraction: float) -> float:
    """A fraction as percent, rounded up to two digits."""
    return math.ceil(fraction * 10_000 - 1e-6) / 100


def _as_yaml_mapping(by: Mapping[str, str]) -> str:
    """Columns and their values as a mapping of YAML on one line."""
    return "{" + ", ".join(f"{_as_yaml_text(key)}: {_as_yaml_text(value)}" for key, value in by.items()) + "}"


def _as_yaml_text(text: str) -> str:
    """Text as a string of YAML in double quotes; JSON is valid YAML."""
    return json.dumps(text)


def _comment(text: str) -> str:
    """A name for a comment, quoted if it holds a line break, which would end the comment, or the like."""
    return text if text.isprintable() else json.dumps(text)
