"""The draft of a gate file: limits that a comparison just keeps, with slices and flips as examples."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from datetime import date

from mptctl.evaluation.flip_report import FlipReport
from mptctl.evaluation.limits import LIMITS
from mptctl.evaluation.pairing.pairs import ALL, GivenClasses
from mptctl.evaluation.rates import Counts
from mptctl.evaluation.statistics import exact_interval

# Interval level of the drafted limits.
LEVEL = 0.95
# Most slices, and most flips, that are written as examples.
EXAMPLES = 5


def draft_gate_file(
    report: FlipReport, today: date, narrow: FlipReport | None = None, old_classes: GivenClasses = None
) -> str:
    """Write the text of a gate file whose limits are the upper ends of a comparison's intervals, rounded up.

    Args:
        report: the comparison, which keeps the drafted limits.
        today: the waivers in comments expire a year later.
        narrow: the same comparison in the narrow reading, to which the gate is held as well; None where OLD
            says which classes it knows. A limit is the larger one of both readings.
        old_classes: as they were given; None: they follow from OLD.
    """
    readings = [report] if narrow is None else [report, narrow]
    in_a_year = date(today.year + 1, today.month, min(today.day, 28))
    lines = [
        "# What a replacement must keep to: mptctl evaluate OLD NEW --gate FILE",
        f"# Limits that {_comment(report.new.name)} just keeps to, against {_comment(report.old.name)}.",
        "# Set them to what you can bear; they are a measurement, not advice.",
    ]
    if narrow is not None:
        lines.append("# OLD does not say which classes it knows: each is the larger one of both readings.")
    lines += [
        "",
        "# The whole interval at this level must lie within a limit. Without it the rate itself decides.",
        f"confidence: {LEVEL}",
        "",
        "# The old classes, over whose samples rates are counted. Without them: what OLD says.",
        *_old_class_lines(old_classes),
        "",
        "limits:",
        *_limit_lines([reading.counts for reading in readings]),
        "",
        "# Slices with limits of their own: columns of the predictions or of --metadata FILE, or class.",
    ]
    slices = _slice_lines(readings)
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


def _limit_lines(tables: Sequence[Counts]) -> list[str]:
    """Write a line for each kind of limit that the flip table of each reading keeps.

    It is a comment where the rate is not defined, or where its interval ends above all that can be set.
    """
    lines: list[str] = []
    for kind in LIMITS:
        measured = []  # by table: the end of the interval, and the value with the interval in words
        for table in tables:
            value = kind.value(table, table.negative_flips)
            interval = None if value is None else kind.interval(table, table.negative_flips, LEVEL)
            if value is not None and interval is not None:
                low, high = interval
                measured.append((high, f"now {100 * value:.2f}, {100 * low:.2f} to {100 * high:.2f}"))
        if len(measured) < len(tables):
            lines.append(f"  # {kind.key}: not defined here  # {kind.meaning}")
            continue
        high, now = max(measured)
        most = min(table.total for table in tables) if kind.high is None else kind.high
        if high > most:
            lines.append(f"  # {kind.key}: too uncertain for a limit  # {kind.meaning}; {now}")
        else:
            lines.append(f"  {kind.key}: {min(_percent_up(high), 100 * most)}  # {kind.meaning}; {now}")
    return lines


def _slice_lines(readings: Sequence[FlipReport]) -> list[str]:
    """Write a line for each of the first slices that all readings have."""
    lines: list[str] = []
    by_values = [{tuple(row.by.items()): row for row in reading.slices} for reading in readings]
    for values in by_values[0]:
        rows = [slices[values] for slices in by_values if values in slices]
        if len(rows) == len(readings) and len(lines) < EXAMPLES:
            intervals = [exact_interval(row.negative_flips, row.n, LEVEL) for row in rows]
            (low, high), row = max(zip(intervals, rows, strict=True), key=lambda pair: pair[0][1])
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
