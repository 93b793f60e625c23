"""A gate file to begin with: limits that a comparison just keeps to, and its slices and flips as comments."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date

from mptctl.evaluation.flip_report import FlipReport
from mptctl.evaluation.limits import LIMITS
from mptctl.evaluation.rates import Counts
from mptctl.evaluation.statistics import exact_interval

LEVEL = 0.95
# Slices, and flips, that are shown as examples at most.
EXAMPLES = 5


def draft_gate_file(report: FlipReport, today: date) -> str:
    """The file's text: its limits are the upper ends of today's intervals, rounded up.

    Args:
        report: the comparison that may pass.
        today: waivers among the examples expire a year later.
    """
    later = date(today.year + 1, today.month, min(today.day, 28))
    lines = [
        "# What a replacement must keep to: mptctl evaluate OLD NEW --gate FILE",
        f"# Limits that {_flat(report.new.name)} just keeps to, against {_flat(report.old.name)}.",
        "# Set them to what you can bear; they are a measurement, not advice.",
        "",
        "# The whole interval at this level must lie within a limit. Without it the rate itself decides.",
        f"confidence: {LEVEL}",
        "",
        "limits:",
        *_lines_of_limits(report.counts),
        "",
        "# Slices with limits of their own: columns of the predictions or of --metadata FILE, or class.",
    ]
    if report.slices:
        lines.append("slices:")
        for row in report.slices[:EXAMPLES]:
            low, high = exact_interval(row.negative_flips, row.n, LEVEL)
            lines.append(
                f"  - {{by: {_in_braces(row.by)}, max_nfr: {_up(high)}}}  # {row.negative_flips} of {row.n}, "
                f"{100 * low:.2f} to {100 * high:.2f} %"
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
        f'#   - {{id: {_text_in_yaml(each)}, reason: "...", owner: ..., expires: {later}}}' for each in ids
    ]
    return "\n".join(lines) + "\n"


def _lines_of_limits(counts: Counts) -> list[str]:
    found = []
    for kind in LIMITS:
        value, interval = kind.value(counts, counts.negative_flips), None
        if value is not None:
            interval = kind.interval(counts, counts.negative_flips, LEVEL)
        if value is None or interval is None:
            found.append(f"  # {kind.key}: not defined here  # {kind.meaning}")
            continue
        high = _up(interval[1]) if kind.high is None else min(_up(interval[1]), 100 * kind.high)
        shown = f"now {100 * value:.2f}, {100 * interval[0]:.2f} to {100 * interval[1]:.2f}"
        found.append(f"  {kind.key}: {high:g}  # {kind.meaning}; {shown}")
    return found


def _up(fraction: float) -> float:
    """A fraction as percent, rounded up to two digits."""
    return math.ceil(fraction * 10_000 - 1e-6) / 100


def _in_braces(by: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{_text_in_yaml(key)}: {_text_in_yaml(value)}" for key, value in by.items()) + "}"


def _text_in_yaml(text: str) -> str:
    """Text as YAML in double quotes, of which JSON is a part."""
    return json.dumps(text)


def _flat(text: str) -> str:
    """A name in a comment, where a line break would end it."""
    return text if text.isprintable() else json.dumps(text)
