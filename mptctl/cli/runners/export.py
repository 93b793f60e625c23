"""The work of `mptctl export`: write the file, and print how it differs from the checkpoint."""

from __future__ import annotations

from pathlib import Path

import typer

from mptctl.cli.outputs import Outputs, files_read_for
from mptctl.cli.show import show
from mptctl.models.export_meta import sidecar_path
from mptctl.names import Session
from mptctl.release.exporting import ExportReport, ExportRequest, export, refuse_contradictions
from mptctl.report.media.progress_bars import showing_progress


def export_and_show(request: ExportRequest, checkpoint: Path, session: Session, *, as_json: bool) -> None:
    """Export a model and print how its predictions differ from the checkpoint's.

    Args:
        request: the model, the format and its settings.
        checkpoint: of that model.
        session: where runs and the split are.
        as_json: print JSON.

    Raises:
        UsageError: settings that contradict each other, or an output that would destroy something.
        MptctlError: as `mptctl.release.exporting.export`.
    """
    refuse_contradictions(request)
    file = request.file(checkpoint)
    outputs = Outputs()
    outputs.add_file("--out", file)
    outputs.add_file("--out", sidecar_path(file))
    outputs.check(files_read_for([request.run], session.run_root))
    with showing_progress(session) as session:
        report = export(request, session)
    show(report, lambda report: typer.echo("\n".join([*_describe(report), report.file])), as_json=as_json)


def _describe(report: ExportReport) -> list[str]:
    """Lines for a person: how the exported model differs from the checkpoint, and the size of the file."""
    lines = [
        f"{report.pictures:,} validation pictures: logits differ by up to "
        f"{report.max_difference:.3g} (tolerance {report.tolerance:g}), {report.answers_differ:,} "
        "predictions differ",
    ]
    if report.answers_differ:
        lines.append(
            f"{report.negative_flips:,} of {report.right_before:,} right predictions turned wrong, "
            f"{report.positive_flips:,} wrong ones right; before a release: mptctl evaluate {report.run} "
            f"{report.file} --max-nfr PCT"
        )
    return [*lines, f"{report.bytes / 1e6:.2f} MB, described by {report.described}"]
