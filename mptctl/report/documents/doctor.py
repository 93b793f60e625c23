"""What is usable on this machine, in a terminal: a row for each thing, and what it comes to."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from mptctl.machine.doctor import Check
from mptctl.report.media.tables import make_table, words

STYLES = {"ok": "green", "missing": "yellow", "unusable": "yellow"}


def print_doctor(checks: Sequence[Check], sentence: str, console: Console) -> None:
    """Print a row for each thing that was looked at, and the sentence last."""
    table = make_table(console, "what", "state", "found", left=("state", "found"))
    for check in checks:
        text = check.found + (f"; {check.advice}" if check.advice else "")
        table.add_row(check.name, Text(check.state, style=STYLES[check.state]), words(text))
    console.print(table)
    # Wrapped in a pipe too: a program takes it from --json.
    console.print(words(sentence, "bold"), highlight=False)
