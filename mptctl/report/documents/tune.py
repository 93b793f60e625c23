"""Show a search for k: the table of its trials, live or as a document, its Pareto front and its choice."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from rich.console import Console

from mptctl.evaluation.rates import Rate
from mptctl.evaluation.statistics import exact_interval_if_any
from mptctl.files import replacing
from mptctl.report.media.document import TONES, Cell, Column, Document, Drawing, Table, notes
from mptctl.report.media.numbers import format_count, format_interval, percent
from mptctl.report.media.progress_bars import ChangesLog, JobState, live_view
from mptctl.report.media.provenance import Provenance
from mptctl.report.media.terminal import rich_table
from mptctl.tune.choice import near_least_of_trials, series_of
from mptctl.tune.tune_report import Trial, TuneReport


def watch_search(console: Console) -> AbstractContextManager[Callable[[TuneReport], None]]:
    """Show a search as it runs: its table in a terminal, a line for each change of a trial elsewhere.

    Args:
        console: on standard error.

    Returns:
        A context manager that yields a function to be called with each new state of the search.
    """
    return live_view(console, lambda report: rich_table(trials_table(report)), ChangesLog(console, _states))


def tune_document(report: TuneReport) -> Document:
    """The document of a search: every trial, then sentences on the result, the choice last."""
    return Document(
        [trials_table(report), *notes(sentences(report))],
        title=f"No trial {_condition(report)}" if report.choice is None else f"Choice: {report.choice}",
        state="failed" if report.choice is None else "passed",
        drawings=lambda: _drawings(report),
        footer="Figures are of the validation part; the test set was not read.",
    )


def trials_table(report: TuneReport) -> Table[Trial]:
    """The table of trials with their rates on the validation part; empty cells where a trial has none yet."""
    over = "error above the bound" if report.max_nfr is None else "not shown to keep the budget"
    # A budget is decided by the upper bound, which is one-sided and of another level than the interval.
    interval = "95 % interval" if report.max_nfr is None else "at most"
    return Table(
        report.trials,
        [
            Column("trial", lambda trial: trial.name),
            Column("state", lambda trial: Cell(trial.status, tone=TONES[trial.status]), words=True),
            Column("epoch", lambda trial: f"{trial.epoch}/{report.epochs}"),
            Column("error", lambda trial: percent(trial.val_error.value) if trial.val_error else ""),
            Column("NFR", lambda trial: percent(trial.val_nfr.value) if trial.val_nfr else ""),
            Column("flips", lambda trial: format_count(trial.val_nfr) if trial.val_nfr else ""),
            Column(interval, lambda trial: _interval_or_bound(trial, report)),
            Column("is", lambda trial: Cell(_mark(trial, report), tone="strong"), words=True),
        ],
        name="Trials",
        legend=f"over: {over}; front: no other trial beats it in both.",
    )


def _drawings(report: TuneReport) -> list[Drawing]:
    """The two figures of a search."""
    from mptctl.report.figures.tune import draw_against_error, draw_over_k, searches_k

    over_k = "NFR and error on all classes over k, of the best trial of each k, with 95 % intervals."
    against = "NFR against error of every whole trial; the line joins those that no other one beats."
    drawings = [Drawing("over-k", over_k, draw_over_k(report))] if searches_k(report) else []
    return [*drawings, Drawing("against", against, draw_against_error(report))]


def save_tune_figure(report: TuneReport, folder: Path, provenance: Provenance | None = None) -> list[Path]:
    """Write ``tune.png`` and ``tune.html`` into a folder.

    Returns:
        The paths written; empty where no trial has both rates, and then nothing is written.

    Raises:
        StorageError: the folder cannot be written.
    """
    from mptctl.report.figures.tune import draw_both, measured_trials
    from mptctl.report.media.page import render_document
    from mptctl.report.media.svg import save_figure

    if not measured_trials(report):
        return []
    png, page = folder / "tune.png", folder / "tune.html"
    save_figure(draw_both(report), png, replacing)
    with replacing(page) as stream:
        stream.write(render_document(tune_document(report), provenance).encode())
    return [png, page]


def sentences(report: TuneReport) -> list[str]:
    """Sentences on the result of a search: limit, Pareto front, failed trials, samples, and the choice."""
    lines = [_limit_sentence(report)]
    if report.front:
        lines.append(f"Pareto front of error and NFR: {', '.join(report.front)}.")
    lines += [f"{trial.name} failed: {trial.error}" for trial in report.trials if trial.status == "failed"]
    restarted = [trial.name for trial in report.trials if trial.restarts]
    if restarted:
        lines.append(f"Went on in another process after theirs died: {', '.join(restarted)}.")
    lines.append(
        f"All figures are of {report.samples:,} validation samples, {report.samples_old:,} of old classes."
    )
    if report.choice is None:
        return [*lines, f"No choice: no whole trial {_condition(report)}."]
    near = near_least_of_trials(report.trials, report.budget)
    if near is not None:
        lines.append(f"Warning: {near}.")
    return [*lines, _choice_sentence(report.trial(report.choice), report)]


def _choice_sentence(chosen: Trial, report: TuneReport) -> str:
    """A sentence on the chosen trial, with its rates, which a chosen trial always has."""
    nfr = chosen.val_nfr
    error = chosen.val_error
    if nfr is None or error is None:
        raise ValueError("a chosen trial has an NFR and an error")
    interval = _interval_of_choice(chosen, nfr, report)
    return (
        f"Choice: {chosen.name}, NFR {percent(nfr.value)} ({format_count(nfr)}; {interval}), "
        f"error {percent(error.value)} ({format_count(error)})."
    )


def _condition(report: TuneReport) -> str:
    """The condition of a choice, as the predicate of a sentence."""
    return "is within the bound" if report.max_nfr is None else "keeps the budget"


def _interval_or_bound(trial: Trial, report: TuneReport) -> str:
    """The 95 % interval of a trial's NFR, or in a search with a budget the upper bound of its NFR.

    Empty where the trial has none.
    """
    if report.max_nfr is not None:
        return percent(trial.nfr_at_most) if trial.nfr_at_most is not None else ""
    return format_interval(trial.val_nfr.ci95) if trial.val_nfr else ""


def _limit_sentence(report: TuneReport) -> str:
    """The budget of NFR, or the bound on the error, that the choice had to keep."""
    if report.max_nfr is not None:
        # Trials that differ only in k are a series; the confidence is split over all series and epochs.
        series_count = len(series_of(report.trials))
        confidence = f"{100 * report.budget.confidence:.10g} % confidence"
        level = f"{100 * report.budget.level(series_count):.6g} %"
        share = f"{level} for each epoch of a series of k: {series_count} x {report.epochs}"
        return (
            f"Budget: NFR of at most {100 * report.max_nfr:g} % with {confidence} ({share}). "
            "Trials are taken from the largest k down, and the first whose bound is above the budget ends "
            "that."
        )
    reference = report.reference.val_error
    return (
        f"Limit on the error: {percent(report.error_bound)} (what is over it is not chosen), which is the "
        f"reference's {percent(reference.value)} ({format_count(reference)}) and "
        f"{100 * (report.max_er_increase or 0.0):g} points."
    )


def _interval_of_choice(chosen: Trial, nfr: Rate, report: TuneReport) -> str:
    """The interval of the chosen trial's NFR, in words; with a budget its upper bound.

    A trial chosen for its NFR needs a wider interval than one that was not chosen. Intervals at the level
    1 - 0.05 / N for each of N trials all contain their rates with a probability of at least 95 %
    (Bonferroni), so the chosen trial's does too.
    """
    if chosen.nfr_at_most is not None:
        return f"at most {percent(chosen.nfr_at_most)}"
    trials = sum(trial.val_nfr is not None for trial in report.trials)
    interval = exact_interval_if_any(nfr.count, int(nfr.of), 1 - 0.05 / trials)
    among = f" for a choice among {trials}" if trials > 1 else ""
    return f"95 % interval {format_interval(interval)}{among}"


def _mark(trial: Trial, report: TuneReport) -> str:
    """The word for a trial: the best, over the limit, on the Pareto front, or empty."""
    if trial.name == report.choice:
        return "best"
    if trial.within_bound is False:
        return "over"
    return "front" if trial.name in report.front else ""


def _states(report: TuneReport) -> list[JobState]:
    return [
        JobState(each.name, each.status, each.restarts, _log_line(each, report)) for each in report.trials
    ]


def _log_line(trial: Trial, report: TuneReport) -> str:
    """The line of a log on the status of a trial, with its rates where it has them."""
    if trial.status == "failed":
        return f"{trial.name}: failed: {trial.error}"
    if trial.status == "waiting":
        return f"{trial.name}: its process died; another one goes on"
    if trial.val_error is None or trial.val_nfr is None:
        return f"{trial.name}: {trial.status}"
    return (
        f"{trial.name}: {trial.status}, epoch {trial.epoch}/{report.epochs}, "
        f"error {percent(trial.val_error.value)}, NFR {percent(trial.val_nfr.value)} "
        f"({format_count(trial.val_nfr)}), {trial.seconds:.0f} s"
    )
