"""Several comparisons with one old model in a terminal: a row for each, what is to be said of it, the verdict last."""

from __future__ import annotations

from collections.abc import Mapping

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mptctl.errors import some
from mptctl.evaluation.flip_report import FlipReport
from mptctl.report.documents.flips import STYLES
from mptctl.report.documents.verdict_line import verdict_line
from mptctl.report.documents.wording import model_lines, sentences_beside_line, slices_sentence, verdict
from mptctl.report.media.numbers import format_interval, of_count, percent
from mptctl.report.media.tables import make_table, say, words

# States of a gate in the order in which the last line names them.
STATES = ("failed", "undecided", "passed")
# New models of one state that the last line names.
NAMED = 20


def print_updates(reports: Mapping[str, FlipReport], console: Console) -> None:
    """Print comparisons with one old model.

    Args:
        reports: by what a person called the new model; two or more.
        console: where; its width is kept to.
    """
    every = list(reports.values())
    console.print(words(f"old  {every[0].old.name}"))
    notes = dict.fromkeys(note for report in every for note in report.warnings)
    for note in notes:
        of = [name for name, report in reports.items() if note in report.warnings]
        who = "" if len(of) == len(every) else f" ({', '.join(of)})"
        console.print(words(f"Note{who}: {note}.", style="yellow"))
    console.print()
    console.print(_table(reports, console))
    for name, report in reports.items():
        console.print()
        console.print(words(f"{name}: {verdict_line(report)}", style="bold"), highlight=False)
        for sentence in (*sentences_beside_line(report), slices_sentence(report)):
            if sentence:
                console.print(words(sentence), highlight=False)
    console.print()
    line, state = _last_line(reports)
    say(words(line, style=STYLES[state]), console)


def _table(reports: Mapping[str, FlipReport], console: Console) -> Table:
    gated = any(report.gate.checks for report in reports.values())
    titles = ["flips", "NFR", "95 % interval", "error: old", "all", *["gate"] * gated]
    table = make_table(console, "new", *titles)
    for name, report in reports.items():
        errors = {line.name: line.new for line in model_lines(report)}
        rate, state = report.rates.nfr, verdict(report).state
        table.add_row(
            words(name),
            of_count(rate),
            percent(rate.value),
            format_interval(rate.ci95),
            errors["error, old classes"],
            errors["error, all classes"],
            *[Text(state, style=STYLES[state])] * gated,
        )
    return table


def _last_line(reports: Mapping[str, FlipReport]) -> tuple[str, str]:
    """The verdict on all of them in words, and its state; without a limit, which of them flips least."""
    states = {name: verdict(report).state for name, report in reports.items()}
    groups = [(state, [name for name in reports if states[name] == state]) for state in STATES]
    found = [(state, names) for state, names in groups if names]
    if found:
        return "; ".join(f"{state.upper()}: {some(names, NAMED)}" for state, names in found), found[0][0]
    least = min(report.counts.negative_flips for report in reports.values())
    best = [name for name, report in reports.items() if report.counts.negative_flips == least]
    flips = of_count(reports[best[0]].rates.nfr)
    return f"fewest flips: {some(best, NAMED)}, {flips}", "ungated"
