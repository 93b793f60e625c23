"""A comparison as Markdown, short enough for a comment on a pull request."""

from __future__ import annotations

import re

from mptctl.errors import visible
from mptctl.evaluation.flip_report import FlipReport
from mptctl.evaluation.slices import slice_name
from mptctl.report.wording import (
    format_count,
    format_interval,
    model_lines,
    percent,
    q_value,
    rate_lines,
    slices_sentence,
    verdict,
)

CLASSES, SLICES = 5, 20
MARKS = {"passed": "✅", "failed": "❌", "undecided": "⚠️", "ungated": "ℹ️"}


def render_markdown(report: FlipReport) -> str:
    """Verdict, rates, errors, and the classes that lost most."""
    answer = verdict(report)
    counts = report.counts
    lines = [
        f"### {MARKS[answer.state]} {escape(answer.title)}",
        "",
        f"old: {escape(report.old.name)}, new: {escape(report.new.name)}",
        "",
        *(f"- {escape(sentence)}" for sentence in answer.sentences),
        *(f"- Note: {escape(warning)}" for warning in report.warnings),
        "",
        "| rate | value | 95% interval | count |",
        "|---|--:|--:|--:|",
        *(
            f"| {line.name} ({line.meaning}) | {percent(line.rate.value)} | {format_interval(line.rate.ci95)} "
            f"| {format_count(line.rate)} |"
            for line in rate_lines(report)
        ),
        "",
        "| model | old | new |",
        "|---|--:|--:|",
        *(f"| {line.name} | {line.old} | {line.new} |" for line in model_lines(report)),
        "",
        f"| {report.n_old:,} samples of old classes | new right | new wrong |",
        "|---|--:|--:|",
        f"| old right | {counts.both_right:,} | **{counts.negative_flips:,}** |",
        f"| old wrong | {counts.positive_flips:,} | {counts.both_wrong:,} |",
    ]
    if sentence := slices_sentence(report):
        lines += [
            "",
            f"<details><summary>{sentence}</summary>".replace("(q < 0.05)", "(q &lt; 0.05)"),
            "",
            "| slice | flips | NFR | 95% interval | lost | q | |",
            "|---|--:|--:|--:|--:|--:|---|",
            *(
                f"| {escape(slice_name(row.by))} | {row.negative_flips:,} / {row.n:,} | {percent(row.nfr)} "
                f"| {format_interval(row.nfr_ci95)} | {percent(row.lost)} | {q_value(row.q)} "
                f"| {'**worse**' if row.worse else ''} |"
                for row in report.slices[:SLICES]
            ),
            "",
            "</details>",
        ]
    worst = [row for row in report.per_class if row.negative_flips][:CLASSES]
    if worst:
        lines += [
            "",
            f"<details><summary>Classes that lost most ({len(worst)})</summary>",
            "",
            "| class | flips | NFR | error old | error new | most to |",
            "|---|--:|--:|--:|--:|---|",
            *(
                f"| {escape(row.label)} | {format_count(row.nfr)} | {percent(row.nfr.value)} | {percent(row.er_old)} "
                f"| {percent(row.er_new)} | {escape(row.taken_by or '')} |"
                for row in worst
            ),
            "",
            "</details>",
        ]
    return "\n".join(lines) + "\n"


def escape(text: str) -> str:
    """Text that stays text: a class may be called `<b>`, `a|b`, `@team` or `[x](y)`."""
    flat = visible(" ".join(text.split()))
    escaped = re.sub(
        r"([\\`*_\[\]|~#])", r"\\\1", flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    )
    return escaped.replace("@", "&#64;")
