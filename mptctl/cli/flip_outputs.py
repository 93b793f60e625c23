"""What `evaluate` writes and prints of a comparison."""

from __future__ import annotations

from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mptctl.names import LOGGED_FLIPS, SortKey, TrackerName

if TYPE_CHECKING:
    from mptctl.evaluation.flip_report import FlippedSample, FlipReport
    from mptctl.inference.named_models import NamedModels
    from mptctl.report.documents.flips_files import FlipFiles
    from mptctl.report.media.provenance import Gathering


def check_outputs(
    files: FlipFiles,
    models: list[str],
    run_root: Path,
    read: list[Path | None],
    as_json: bool,
    as_markdown: bool,
) -> None:
    """Refuse outputs that would destroy what is read, or each other, before anything is computed."""
    from mptctl.cli.outputs import Outputs, read_for_models
    from mptctl.errors import UsageError
    from mptctl.evaluation.reading.earlier_predictions import SAVED
    from mptctl.files.output_kinds import APPENDED, HTML, JUNIT, MARKDOWN, figure_kind
    from mptctl.report.documents.flips_files import PREDICTIONS

    if as_json and as_markdown:
        raise UsageError("--json and --markdown -: both print to standard output; give --markdown a file")
    outputs = Outputs()
    outputs.file("--report", files.page, HTML)
    if files.figures is not None:
        # Only then, because matplotlib takes long to import.
        from mptctl.report.figures.flips import figure_files

        outputs.folder("--figures", files.figures, figure_files(), figure_kind)
    outputs.file("--markdown", files.markdown, MARKDOWN)
    outputs.file("--junit", files.junit, JUNIT)
    outputs.file("--append-history", files.history, APPENDED)
    outputs.folder("--save-predictions", files.predictions, PREDICTIONS, lambda path: SAVED)
    inputs = [*read_for_models(models, run_root), *(path for path in read if path is not None)]
    outputs.check(inputs, prints=as_json or as_markdown)
    if files.history is not None and files.history.exists():
        from mptctl.evaluation.gate.history import read_history

        read_history(files.history)  # a damaged one is said before anything is computed


def print_comparison(
    report: FlipReport, as_json: bool, as_markdown: bool, sort: SortKey, rows: int | None, full: bool
) -> None:
    """Print a comparison in the form that was asked for."""
    from mptctl.report.documents.class_names import for_people

    if as_json:
        typer.echo(report.model_dump_json())
    elif as_markdown:
        from mptctl.report.documents.flips_markdown import render_markdown

        typer.echo(render_markdown(for_people(report)), nl=False)
    else:
        from rich.console import Console

        from mptctl.report.documents.flips import print_report

        print_report(for_people(report), Console(), sort, rows, full=full)


def write_comparison(
    files: FlipFiles,
    report: FlipReport,
    flips: list[FlippedSample],
    found: NamedModels,
    data_root: Path | None,
    sources: Gathering | None,
    today: date,
) -> None:
    """Write the files that were asked for, add to the history, and say so.

    Args:
        files: those that were asked for.
        report: with the flips of the gallery.
        flips: those of the page's list, which may be more.
        found: the models.
        data_root: where the pictures lie.
        sources: of the page's provenance.
        today: of the history.
    """
    for path in files.write(report, found.models, data_root, found.split, flips, sources):
        typer.echo(f"wrote {path}", err=True)
    if files.history is not None:
        _add_to_history(files.history, report, today)


def _add_to_history(path: Path, report: FlipReport, today: date) -> None:
    """Add a comparison to a history, and say so; one that is there already is not added again."""
    from mptctl.evaluation.gate.history import append_release, release_of

    place = append_release(path, release_of(report, today))
    said = "added to" if place is None else f"not added, since it is release {place} already:"
    typer.echo(f"{said} {path}", err=True)


def log_flips(report: FlipReport, trackers: list[TrackerName], new: str, run_root: Path) -> None:
    """Log a comparison with as many flips as a tracker is given."""
    from mptctl.report.trackers.logged_comparison import log_comparison

    given = report.model_copy(update={"worst_flips": report.worst_flips[:LOGGED_FLIPS]})
    log_comparison(given, trackers, new, run_root)


def print_annotations(report: FlipReport) -> None:
    """Annotate a GitHub workflow, on standard error: the runner reads both, and standard output may be JSON."""
    from mptctl.cli.streams import write_commands
    from mptctl.report.documents.ci import render_github

    write_commands(render_github(report))
