"""Log a comparison for `evaluate --log`: its rates and counts, its report, and every flip."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mptctl.evaluation.flip_report import SHOWN_FLIPS, FlipReport
from mptctl.files import scratch_folder
from mptctl.models.metrics_log import read_metrics
from mptctl.models.run_folder import RunDir
from mptctl.names import TrackerName
from mptctl.report.documents.flips_files import FlipFiles
from mptctl.report.trackers.flip_metrics import flip_metrics
from mptctl.report.trackers.guarded import GuardedTracker
from mptctl.report.trackers.logged_run import tracker_entries, warn
from mptctl.report.trackers.tracker import Entry


def log_comparison(
    result: FlipReport,
    names: Sequence[TrackerName],
    new: str,
    run_root: Path,
) -> None:
    """Log a comparison to the tracker entries of the new model's training, or else to new entries.

    The run root is made if it is missing.

    Args:
        result: its `worst_flips` are all flips, which are attached as a CSV.
        names: of the trackers.
        new: the new model, as the user named it.
        run_root: folder of the runs, where trackers without a server keep their files too.
    """
    places = (run_root / new, Path(new).expanduser())
    run = next((place for place in places if RunDir(place).holds_run()), None)
    entry_names = tracker_entries(run) if run is not None else {}
    lines = read_metrics(RunDir(run).metrics) if run is not None else []
    last_step = max((line.step for line in lines), default=0)
    run_root.mkdir(parents=True, exist_ok=True)
    title = f"{result.old.name} -> {result.new.name}"
    trackers = [
        GuardedTracker(name, Entry(title, run or run_root, run_root, entry_names.get(name)), warn)
        for name in names
    ]
    values = {f"evaluate/{key}": value for key, value in flip_metrics(result).items()}
    # The files stay until all trackers have read them.
    with scratch_folder() as folder:
        files = write_attachments(result, folder)
        for tracker in trackers:
            tracker.do(lambda each: each.result(values, last_step))
            tracker.attach(*files)
        for tracker in trackers:
            tracker.do(lambda each: each.close(finished=True))


def write_attachments(result: FlipReport, folder: Path) -> list[Path]:
    """Write the report as HTML, Markdown and JSON and every flip as CSV to a folder, and return the paths.

    Args:
        result: its `worst_flips` are all flips.
        folder: of the files.
    """
    files = FlipFiles(page=folder / "report.html", markdown=folder / "report.md", flips=folder / "flips.csv")
    written = files.write(result, {}, None, None)
    data = folder / "report.json"
    data.write_text(result.with_flips(SHOWN_FLIPS).model_dump_json(), encoding="utf-8")
    return [*written, data]
