"""A search in a terminal: the trials as a live table, then the front, the choice, and how sure it is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial

from rich.console import Console
from rich.table import Table
from rich.text import Text

from mptctl.evaluation.statistics import exact_interval_if_any
from mptctl.report.media.live import follow
from mptctl.report.media.numbers import format_count, format_interval, p_value, percent
from mptctl.report.media.tables import make_table, words
from mptctl.tune.tune_report import Comparison, Trial, TuneReport
from mptctl.tune.walk import near_least_of_trials, series_of

STYLES = {"done": "green", "running": "bold", "stopped": "dim", "failed": "red", "waiting": "dim"}


def watching(console: Console) -> AbstractContextManager[Callable[[TuneReport], None]]:
    """A watcher of a search: a table that follows it in a terminal, a line for each change of state in a log.

    Args:
        console: on standard error.
    """
    return follow(console, partial(trials_table, console=console), _Plain(console))


def print_tune(report: TuneReport, console: Console) -> None:
    """Print a search that is done."""
    console.print(trials_table(report, console))
    console.print()
    for sentence in sentences(report):
        console.print(words(sentence))


def trials_table(report: TuneReport, console: Console) -> Table:
    """Every trial with its figures on the validation part."""
    # What decides a budget is the bound, on one side and of another level than the interval.
    sure = "95 % interval" if report.max_nfr is None else "at most"
    headings = ("trial", "state", "epoch", "error", "NFR", "flips", sure, "is")
    table = make_table(console, *headings, left=("state", "is"), spare=("epoch", "state", "error", sure))
    for trial in report.trials:
        nfr = trial.val_nfr
        table.add_row(
            trial.name,
            Text(trial.status, style=STYLES[trial.status]),
            f"{trial.epoch}/{report.epochs}",
            percent(trial.val_error.value) if trial.val_error else "",
            percent(nfr.value) if nfr else "",
            format_count(nfr) if nfr else "",
            how_sure(trial, report),
            _mark(trial, report),
        )
    return table


def sentences(report: TuneReport) -> list[str]:
    """What the search came to, the choice last."""
    lines = [_limit(report)]
    if report.front:
        lines.append(f"Pareto front of error and NFR: {', '.join(report.front)}.")
    lines += [f"{trial.name} failed: {trial.error}" for trial in report.trials if trial.status == "failed"]
    restarted = [t.name for t in report.trials if t.restarts]
    if restarted:
        lines.append(f"Went on in another process after theirs died: {', '.join(restarted)}.")
    lines.append(
        f"All figures are of {report.samples:,} validation samples, {report.samples_old:,} of old classes."
    )
    if report.choice is None:
        lines.append(f"No choice: no whole trial {keeps(report)}.")
    else:
        chosen = report.trial(report.choice)
        assert chosen.val_nfr is not None
        assert chosen.val_error is not None
        if report.second is not None:
            lines.append(_second(report.second))
        flips = f"{format_count(chosen.val_nfr)}; {_interval_of_choice(chosen, report)}"
        error = f"{percent(chosen.val_error.value)} ({format_count(chosen.val_error)})"
        near = near_least_of_trials(report.trials, report.budget)
        if near is not None:
            lines.append(f"Warning: {near}.")
        lines.append(f"Choice: {chosen.name}, NFR {percent(chosen.val_nfr.value)} ({flips}), error {error}.")
    return lines


def keeps(report: TuneReport) -> str:
    """What a trial does that may be chosen."""
    return "is within the bound" if report.max_nfr is None else "keeps the budget"


def how_sure(trial: Trial, report: TuneReport) -> str:
    """The interval of a trial's NFR, or with a budget the upper bound that is held against it."""
    if report.max_nfr is not None:
        return percent(trial.nfr_at_most) if trial.nfr_at_most is not None else ""
    return format_interval(trial.val_nfr.ci95) if trial.val_nfr else ""


def _limit(report: TuneReport) -> str:
    """What the choice had to keep to."""
    if report.max_nfr is not None:
        series, sure = len(series_of(report.trials)), report.budget.confidence
        each = f"{100 * report.budget.level(series):.6g} % for each epoch of a series of k: {series} x {report.epochs}"
        return (
            f"Budget: NFR of at most {100 * report.max_nfr:g} % with {100 * sure:g} % confidence ({each}). Trials "
            "are taken from the largest k down, and the first whose bound is above the budget ends that."
        )
    reference = report.reference.val_error
    return (
        f"Bound on the error: {percent(report.error_bound)} (what is over it is not chosen), which is the reference's "
        f"{percent(reference.value)} ({format_count(reference)}) and {100 * (report.max_er_increase or 0.0):g} points."
    )


def _interval_of_choice(chosen: Trial, report: TuneReport) -> str:
    """The interval of the chosen trial's NFR, in words.

    The trial was chosen for its NFR, so an interval that ignores the others is too narrow. At the level 1 - 0.05 / N
    for each of N trials, all N intervals hold together with a probability of at least 95 % (Bonferroni), the chosen
    one too.
    """
    if chosen.nfr_at_most is not None:
        return f"at most {percent(chosen.nfr_at_most)}"
    trials = sum(trial.val_nfr is not None for trial in report.trials)
    nfr = chosen.val_nfr
    interval = None if nfr is None else exact_interval_if_any(nfr.count, int(nfr.of), 1 - 0.05 / trials)
    among = f" for a choice among {trials}" if trials > 1 else ""
    return f"95 % interval {format_interval(interval)}{among}"


def _second(second: Comparison) -> str:
    verdict = f"{'more' if second.differs else 'no more'} than sampling noise; each was trained once"
    return (
        f"Second best: {second.name}. Flipped by the choice alone: {second.only_choice_flips:,}, by the second alone: "
        f"{second.only_second_flips:,} (McNemar {p_value(second.p_value)}): {verdict}."
    )


def _mark(trial: Trial, report: TuneReport) -> str:
    if trial.name == report.choice:
        return "best"
    if trial.within_bound is False:
        return "over"
    return "front" if trial.name in report.front else ""


class _Plain:
    """One line for each trial that begins, ends or goes on elsewhere."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._seen: dict[str, tuple[str, int]] = {}

    def __call__(self, report: TuneReport) -> None:
        """Say what has changed."""
        for trial in report.trials:
            state = (trial.status, trial.restarts)
            if self._seen.get(trial.name, ("waiting", 0)) == state:
                continue
            self._seen[trial.name] = state
            self._console.print(_line(trial, report), highlight=False, markup=False, soft_wrap=True)


def _line(trial: Trial, report: TuneReport) -> str:
    if trial.status == "failed":
        return f"{trial.name}: failed: {trial.error}"
    if trial.status == "waiting":
        return f"{trial.name}: its process died; another one goes on"
    if trial.val_error is None or trial.val_nfr is None:
        return f"{trial.name}: {trial.status}"
    return (
        f"{trial.name}: {trial.status}, epoch {trial.epoch}/{report.epochs}, error {percent(trial.val_error.value)}, "
        f"NFR {percent(trial.val_nfr.value)} ({format_count(trial.val_nfr)}), {trial.seconds:.0f} s"
    )
