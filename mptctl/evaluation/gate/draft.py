"""The draft of a gate file: limits that a comparison just keeps, with slices and flips as examples."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date

from mptctl.evaluation.flip_report import FlipReport
from mptctl.evaluation.limits import LIMITS
from mptctl.evaluation.pairing.pairs import ALL, GivenClasses
from mptctl.evaluation.statistics import exact_interval

# Interval level of the drafted limits.
LEVEL = 0.95
# Most slices, and most flips, that are written as examples.
EXAMPLES = 5


def draft_gate_file(report: FlipReport, today: date, old_classes: GivenClasses = None) -> str:
    """Write the text of a gate file whose limits are the upper ends of a comparison's intervals, rounded up.

    Args:
        report: the comparison, which keeps the drafted limits.
        today: the waivers in comments expire a year later.
        old_classes: as they were given; None: they follow from OLD.
    """
    in_a_year = date(today.year + 1, today.month, min(today.day, 28))
    lines = [
        "# What a replacement must keep to: mptctl evaluate OLD NEW --gate FILE",
        f"# Limits that {_comment(report.new.name)} just keeps to, against {_comment(report.old.name)}.",
        "# Set limits that you can accept; these are a measurement, not advice.",
        "",
        "# The whole interval at this level must lie within a limit. Without it the rate itself decides.",
        f"confidence: {LEVEL}",
        "",
        "# The old classes, over whose samples rates are counted. Without them: what OLD says.",
        *_old_class_lines(old_classes),
        "",
        "limits:",
        *_limit_lines(report),
        "",
        "# Slices with limits of their own: columns of the predictions or of --metadata FILE, or class.",
    ]
    slices = _slice_lines(report)
    lines += ["slices:", *slices] if slices else ["# slices:", "#   - {by: {country: de}, max_nfr: 1.0}"]
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


def _old_class_lines(old_classes: GivenClasses) -> list[str]:
    """Write the key with the old classes, one a line if they are listed; a comment where none are given."""
    if old_classes is None:
        return ["# old_classes: old_classes.txt"]
    if old_classes == ALL:
        return ["old_classes: all"]
    return ["old_classes:", *(f"  - {_as_yaml_text(name)}" for name in old_classes)]


def _limit_lines(report: FlipReport) -> list[str]:
    """Write a line for each kind of limit that the comparison keeps.

    It is a comment where the rate is not defined, where its interval ends above all that can be set, and
    where the limit would be refused, since OLD does not say which classes it knows.
    """
    table = report.counts
    lines = []
    for kind in LIMITS:
        value = kind.value(table, table.negative_flips)
        interval = None if value is None else kind.interval(table, table.negative_flips, LEVEL)
        if value is None or interval is None:
            lines.append(f"  # {kind.key}: not defined here  # {kind.meaning}")
            continue
        low, high = interval
        meaning = f"{kind.meaning}; now {100 * value:.2f}, {100 * low:.2f} to {100 * high:.2f}"
        most = table.total if kind.high is None else kind.high
        if high > most:
            lines.append(f"  # {kind.key}: too uncertain for a limit  # {meaning}")
        elif report.never_predicted and (kind.high is None or high < 0):
            lines.append(f"  # {kind.key}: needs old_classes  # {meaning}")
        else:
            lines.append(f"  {kind.key}: {min(_percent_up(high), 100 * most)}  # {meaning}")
    return lines


def _slice_lines(report: FlipReport) -> list[str]:
    """Write a line for each of the first slices."""
    lines: list[str] = []
    for row in report.slices[:EXAMPLES]:
        low, high = exact_interval(row.negative_flips, row.n, LEVEL)
        lines.append(
            f"  - {{by: {_as_yaml_mapping(row.by)}, max_nfr: {_percent_up(high)}}}"
            f"  # {row.negative_flips} of {row.n}, {100 * low:.2f} to {100 * high:.2f} %"
        )
    return lines


def _percent_up(fraction: float) -> float:
    """A fraction as percent, rounded up to two digits."""
    return math.ceil(fraction * 10_000 - 1e-9) / 100


def _as_yaml_mapping(by: Mapping[str, str]) -> str:
    """Columns and their values as a mapping of YAML on one line."""
    return "{" + ", ".join(f"{_as_yaml_text(key)}: {_as_yaml_text(value)}" for key, value in by.items()) + "}"


def _as_yaml_text(text: str) -> str:
    """Text as a string of YAML in double quotes, in which what cannot be seen is written as its code."""
    quoted = text.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(c if c.isprintable() else f"\\U{ord(c):08x}" for c in quoted) + '"'


def _comment(text: str) -> str:
    """A name for a comment, quoted if it holds a line break, which would end the comment, or the like."""
    return text if text.isprintable() else json.dumps(text)
