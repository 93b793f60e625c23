"""A comparison as Markdown, short enough for a comment on a pull request."""

from __future__ import annotations

import re
from collections.abc import Sequence

from mptctl.errors import visible
from mptctl.evaluation.flip_report import FlipReport
from mptctl.evaluation.slices.source import slice_name
from mptctl.files.explained import shown
from mptctl.report.documents.causes_wording import cause_lines
from mptctl.report.documents.wording import model_lines, rate_lines, slices_sentence, verdict
from mptctl.report.media.numbers import format_count, format_interval, percent, q_value

CLASSES, SLICES = 5, 20
# Characters of a name; and of a page, some less than the 65,536 that GitHub takes for a comment.
NAME, MOST_BYTES = 200, 60_000
MARKS = {"passed": "✅", "failed": "❌", "undecided": "⚠️", "ungated": "ℹ️"}


def render_markdown(report: FlipReport) -> str:
    """Verdict, rates, errors, and folded what is longer; what is too long for a comment is left out, and said."""
    sentences = [*verdict(report).sentences, *(f"Note: {warning}." for warning in report.warnings)]
    folded = [part for part in (_causes(report), _slices(report), _classes(report)) if part]
    page, kept = _page(report, sentences, folded), len(sentences)
    while len(page.encode()) > MOST_BYTES and (folded or kept):
        if folded:
            folded.pop()
        else:
            kept //= 2
        left = [f"{len(sentences) - kept:,} more sentences are in the JSON."] if kept < len(sentences) else []
        page = _page(
            report,
            [*sentences[:kept], *left, "Lists that are too long for a comment are in the JSON."],
            folded,
        )
    return page


def _page(report: FlipReport, sentences: Sequence[str], folded: Sequence[list[str]]) -> str:
    answer, counts = verdict(report), report.counts
    lines = [
        f"### {MARKS[answer.state]} {escape(answer.title)}",
        "",
        f"old: {escape(shown(report.old.name, NAME))}, new: {escape(shown(report.new.name, NAME))}",
        "",
        *(f"- {escape(sentence)}" for sentence in sentences),
        "",
        "| rate | value | 95 % interval | count |",
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
    for part in folded:
        lines += ["", *part]
    return "\n".join(lines) + "\n"


def _folded(summary: str, head: str, rule: str, rows: list[str]) -> list[str]:
    return [f"<details><summary>{summary}</summary>", "", head, rule, *rows, "", "</details>"]


def _causes(report: FlipReport) -> list[str]:
    rows = [f"| {line.name} ({line.meaning}) | {line.count} |" for line in cause_lines(report)]
    if not rows:
        return []
    return _folded("Why they flipped", "| cause | flips |", "|---|--:|", rows)


def _slices(report: FlipReport) -> list[str]:
    if not (sentence := slices_sentence(report)):
        return []
    rows = [
        f"| {escape(slice_name(row.by))} | {row.negative_flips:,} / {row.n:,} | {percent(row.nfr)} "
        f"| {format_interval(row.nfr_ci95)} | {percent(row.lost)} | {q_value(row.q)} "
        f"| {'**worse**' if row.worse else ''} |"
        for row in report.slices[:SLICES]
    ]
    summary = sentence.replace("(q < 0.05)", "(q &lt; 0.05)")
    return _folded(
        summary, "| slice | flips | NFR | 95 % interval | lost | q | |", "|---|--:|--:|--:|--:|--:|---|", rows
    )


def _classes(report: FlipReport) -> list[str]:
    worst = [row for row in report.per_class if row.negative_flips][:CLASSES]
    if not worst:
        return []
    rows = [
        f"| {escape(shown(row.label, NAME))} | {format_count(row.nfr)} | {percent(row.nfr.value)} "
        f"| {format_interval(row.nfr.ci95)} | {percent(row.er_old)} | {percent(row.er_new)} "
        f"| {escape(shown(row.taken_by or '', NAME))} |"
        for row in worst
    ]
    return _folded(
        f"Classes that lost most ({len(worst)})",
        "| class | flips | NFR | 95 % interval | error of OLD | error of NEW | mostly to |",
        "|---|--:|--:|--:|--:|--:|---|",
        rows,
    )


def escape(text: str) -> str:
    """Text that stays text: a class may be called `<b>`, `a|b`, `@team` or `[x](y)`."""
    flat = visible(" ".join(text.split()))
    escaped = re.sub(
        r"([\\`*_\[\]|~#])", r"\\\1", flat.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    )
    return escaped.replace("@", "&#64;")
