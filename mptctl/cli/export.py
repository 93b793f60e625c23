"""`mptctl export`: write the file, and print how it differs from the checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from mptctl.cli.outputs import Outputs, files_read_for
from mptctl.cli.show import show
from mptctl.models.export_meta import sidecar_path
from mptctl.models.run_folder import find_checkpoint
from mptctl.names import Session
from mptctl.release.requests import ExportRequest
from mptctl.report.media.progress_bars import showing_progress

if TYPE_CHECKING:
    from mptctl.release.export import ExportReport


def export_and_show(asked: ExportRequest) -> None:
    """Export a model and print how its predictions differ from the checkpoint's.

    Raises:
        UsageError: settings that contradict each other, or an output that would destroy something.
        MptctlError: as `mptctl.release.export.export`.
    """
    # A missing model is reported before torch is imported, which takes seconds.
    file = asked.file(find_checkpoint(asked.run, asked.run_root))
    from mptctl.release.export import export, refuse_contradictions

    refuse_contradictions(asked)
    outputs = Outputs().add_file("--out", file).add_file("--out", sidecar_path(file))
    outputs.check(files_read_for([asked.run], asked.run_root))
    with showing_progress(Session(asked.run_root, data_root=asked.data_root)) as session:
        report = export(asked, session)
    show(report, lambda report: "\n".join([*_describe(report), report.file]), as_json=asked.as_json)


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
