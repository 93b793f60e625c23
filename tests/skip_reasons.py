"""The last line of a run of the tests but one: how many were skipped, by reason."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

import pytest


def summarize_skips(reasons: Iterable[str]) -> str:
    """One line of how many tests were skipped for which reason, the most frequent first. Packages that one command
    installs are one reason."""
    counts: Counter[str] = Counter()
    for reason in reasons:
        command = re.search(r"not installed \((make [\w-]+)\)", reason)
        counts[f"not installed ({command[1]})" if command else reason] += 1
    listed = "; ".join(f"{count} {reason}" for reason, count in counts.most_common())
    return f"{counts.total()} skipped: {listed}"


def report_skips(terminalreporter: pytest.TerminalReporter) -> None:
    """Writes the line of `summarize_skips` where something was skipped."""
    reasons = [
        report.longrepr[2].removeprefix("Skipped: ")
        for report in terminalreporter.stats.get("skipped", [])
        if isinstance(report.longrepr, tuple)
    ]
    if reasons:
        terminalreporter.line(summarize_skips(reasons))
