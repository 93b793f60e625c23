"""The page and the picture of a search."""

from __future__ import annotations

from pathlib import Path

from matplotlib.figure import Figure

from mptctl.files import replacing
from mptctl.report.documents.tune import how_sure, keeps, sentences
from mptctl.report.figures.tune import draw_against, draw_over_k, measured_trials
from mptctl.report.media.numbers import format_count, percent
from mptctl.report.media.page import inline_figure
from mptctl.report.media.provenance import Provenance
from mptctl.report.media.svg import SIZE, save_figure, style
from mptctl.report.media.tables_page import Cell, PageTable, TablesPage
from mptctl.tune.tune_report import Trial, TuneReport


def save_tune_figure(report: TuneReport, folder: Path, provenance: Provenance | None = None) -> list[Path]:
    """Write ``tune.png`` and ``tune.html``; the paths written, none where no trial has figures.

    Raises:
        StorageError: the folder cannot be written.
    """
    if not measured_trials(report):
        return []
    png, page = folder / "tune.png", folder / "tune.html"
    with style():
        figure = Figure(figsize=(2 * SIZE[0], SIZE[1]))
        left, right = figure.subplots(1, 2, gridspec_kw={"wspace": 0.08})
        draw_over_k(left, report)
        draw_against(right, report)
    save_figure(figure, png, replacing)
    with replacing(page) as stream:
        stream.write(render_tune_html(report, provenance).encode())
    return [png, page]


def _seen(name: str, report: TuneReport) -> str:
    """Every point of a figure, in words and numbers."""
    points = [
        f"{trial.name}: error {percent(trial.val_error.value)}, NFR {percent(trial.val_nfr.value)}"
        for trial in measured_trials(report)
        if trial.val_error and trial.val_nfr
    ]
    limit = "Bound on the error" if report.max_nfr is None else "Limit on NFR"
    at = report.error_bound if report.max_nfr is None else report.max_nfr
    bound = f"{limit} {percent(at)}; choice: {report.choice or 'none'}."
    title = "Error and NFR of each trial" if name == "over-k" else "NFR against error of each trial"
    return f"{title}. {'; '.join(points)}. {bound}"


def render_tune_html(report: TuneReport, provenance: Provenance | None = None) -> str:
    """One page that needs nothing but itself.

    Args:
        report: the search.
        provenance: what the page was made from.
    """
    figures = []
    for name, caption, draw in (
        ("over-k", "Bars: error on all classes. Lines: NFR with its 95 % interval.", draw_over_k),
        ("against", "Every whole trial; the line joins those that no other one beats.", draw_against),
    ):
        with style():
            figure = Figure(figsize=SIZE)
            draw(figure.subplots(), report)
        figures.append(inline_figure(name, caption, figure, _seen(name, report)))
    return TablesPage(
        title=f"No trial {keeps(report)}" if report.choice is None else f"Choice: {report.choice}",
        sentences=sentences(report),
        figures=figures,
        tables=[_trials(report)],
        footer="Figures are of the validation part; the test set was not read.",
        state="bad" if report.choice is None else "good",
    ).render(provenance)


def _trials(report: TuneReport) -> PageTable:
    sure = "95 % interval" if report.max_nfr is None else "at most"
    heads = ("trial", "state", "epochs", "error", "count", "NFR", sure, "count", "note")
    rows = []
    for trial in report.trials:
        cells = [
            trial.name,
            trial.status,
            f"{trial.epoch} / {report.epochs}",
            *[""] * 5,
            _note(trial, report),
        ]
        if (error := trial.val_error) and (nfr := trial.val_nfr):
            cells[3:8] = [
                percent(error.value),
                format_count(error),
                percent(nfr.value),
                how_sure(trial, report),
                format_count(nfr),
            ]
        rows.append([Cell(text) for text in cells])
    names = [trial.name for trial in report.trials]
    chosen = None if report.choice is None else names.index(report.choice)
    return PageTable("Trials", heads, rows, left=frozenset({8}), chosen=chosen)


def _note(trial: Trial, report: TuneReport) -> str:
    if trial.error:
        return trial.error
    if trial.name == report.choice:
        return "choice"
    if trial.within_bound is False:
        return "error above the bound" if report.max_nfr is None else "not shown to keep the budget"
    return "on the front" if trial.name in report.front else ""
