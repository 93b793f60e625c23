"""Results in each medium, as the command line writes them."""

from __future__ import annotations

from rich.console import Console

from mptctl.evaluation.calibration.report import CalibrationReport
from mptctl.evaluation.flip_report import FlipReport
from mptctl.report.documents.calibration import calibration_document
from mptctl.report.documents.comparison import comparison_document
from mptctl.report.documents.flips import screen_document
from mptctl.report.documents.study import plan_document, study_document
from mptctl.report.documents.tune import tune_document
from mptctl.report.media.latex import document_latex
from mptctl.report.media.markdown import document_markdown
from mptctl.report.media.page import render_document
from mptctl.report.media.provenance import Provenance
from mptctl.report.media.terminal import print_document
from mptctl.studies.comparison import Comparison
from mptctl.studies.study_dry_run import StudyDryRun
from mptctl.studies.study_report import StudyReport
from mptctl.tune.tune_report import TuneReport


def print_screen(report: FlipReport, console: Console) -> None:
    print_document(screen_document(report), console)


def print_comparison(comparison: Comparison, console: Console) -> None:
    print_document(comparison_document(comparison), console)


def comparison_latex(comparison: Comparison) -> str:
    return document_latex(comparison_document(comparison))


def comparison_markdown(comparison: Comparison) -> str:
    return document_markdown(comparison_document(comparison))


def comparison_page(comparison: Comparison, provenance: Provenance | None = None) -> str:
    return render_document(comparison_document(comparison), provenance)


def study_page(report: StudyReport, provenance: Provenance | None = None) -> str:
    return render_document(study_document(report), provenance)


def print_plan(plan: StudyDryRun, console: Console) -> None:
    print_document(plan_document(plan), console)


def calibration_page(report: CalibrationReport, provenance: Provenance | None = None) -> str:
    return render_document(calibration_document(report), provenance)


def print_tune(report: TuneReport, console: Console) -> None:
    print_document(tune_document(report), console)


def tune_page(report: TuneReport, provenance: Provenance | None = None) -> str:
    return render_document(tune_document(report), provenance)
