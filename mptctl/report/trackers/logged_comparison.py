"""`evaluate --log`: rates and counts of a comparison, the report, and every flip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
from pyarrow import csv, types

from mptctl.evaluation.flip_report import FlipReport
from mptctl.evaluation.reading.spreadsheet_cells import as_cell
from mptctl.files import scratch_folder
from mptctl.models.metrics_log import read_metrics
from mptctl.models.run_folder import RunDir
from mptctl.names import TrackerName
from mptctl.report.documents.flips_object import Report
from mptctl.report.trackers.background import Background, attach
from mptctl.report.trackers.flip_metrics import flip_metrics
from mptctl.report.trackers.logged_run import known_as, warn
from mptctl.report.trackers.tracker import Entry


def log_comparison(
    result: FlipReport,
    names: Sequence[TrackerName],
    new: str,
    run_root: Path,
    say: Callable[[str], None] = warn,
) -> None:
    """Log a comparison where the new model's training was logged, or else as an entry of its own.

    Args:
        result: with all flips that are to be attached.
        names: of the trackers.
        new: the new model, as `evaluate` names it.
        run_root: where runs are, and what a tracker without a server keeps.
        say: takes warnings.
    """
    places = (run_root / new, Path(new).expanduser())
    run = next((place for place in places if RunDir(place).holds_run()), None)
    before = known_as(run) if run is not None else {}
    lines = read_metrics(RunDir(run).metrics) if run is not None else []
    step = max((line.step for line in lines), default=0)
    run_root.mkdir(parents=True, exist_ok=True)
    entries = [
        Entry(f"{result.old.name} -> {result.new.name}", run or run_root, run_root, before.get(name))
        for name in names
    ]
    trackers = [
        Background(name, entry, lambda *told: None, say) for name, entry in zip(names, entries, strict=True)
    ]
    values = {f"evaluate/{key}": value for key, value in flip_metrics(result).items()}
    # Kept until all trackers have read it.
    with scratch_folder() as folder:
        files = write_attachments(result, folder)
        for tracker in trackers:
            tracker.do(lambda to: to.result(values, step))
            attach(tracker, *files)
        for tracker in trackers:
            tracker.close(finished=True)


def write_attachments(result: FlipReport, folder: Path) -> list[Path]:
    """Write the report and every flip; the paths written.

    Args:
        result: with all flips.
        folder: may hold other files, which are not attached.
    """
    report = Report(result)
    columns = {
        name: pa.array([None if text is None else as_cell(text) for text in values.to_pylist()], values.type)
        if types.is_string(values.type)
        else values
        for name, values in zip(report.flips.column_names, report.flips.columns, strict=True)
    }
    names = ("flips.csv", "report.html", "report.json", "report.md")
    flips, page, data, markdown = files = [folder / name for name in names]
    report.to_html(page)
    report.to_markdown(markdown)
    data.write_text(report.model_dump_json(), encoding="utf-8")
    csv.write_csv(pa.table(columns), flips)
    return files
