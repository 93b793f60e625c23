"""`mptctl fewshot`: measure episodes, or compare features of several runs."""

from __future__ import annotations

from pathlib import Path

import typer

from mptctl.cli.messages import warn
from mptctl.cli.outputs import Outputs, files_read_for
from mptctl.cli.show import show
from mptctl.errors import UsageError
from mptctl.inference.own_models import load_named_checkpoints
from mptctl.inference.requests import FewShotRequest
from mptctl.report.media.progress_bars import showing_progress

FIGURE = "discriminability.png"

# Modules with torch, which takes seconds to import, are imported after the checks, so that a missing model is
# reported at once.


def test_features(asked: FewShotRequest) -> None:
    """Measure few-shot accuracy of a run; or with --analysis also the variance of features, of several runs.

    Raises:
        UsageError: settings that do not go together, or a figure that would destroy something.
        MptctlError: a model or its split cannot be used.
    """
    if not asked.analysis and asked.out is not None:
        raise UsageError("--out: is the figure of --analysis; give that as well")
    if not asked.analysis and len(asked.runs) > 1:
        raise UsageError(f"{', '.join(asked.runs)}: name one run, or give --analysis")
    if asked.analysis:
        _analyse_features(asked, asked.out or asked.run_root / FIGURE)
    else:
        _measure_episodes(asked, asked.runs[0])


def _measure_episodes(asked: FewShotRequest, run: str) -> None:
    """Measure few-shot accuracy of a run, and print it and its warnings."""
    checkpoints, split = load_named_checkpoints([run], asked.session)
    from mptctl.inference.few_shot import measure_few_shot
    from mptctl.report.documents.few_shot import few_shot_document

    with showing_progress(asked.session) as session:
        report = measure_few_shot(checkpoints[run], split, asked, session)
    warn(report.warnings)
    show(report, few_shot_document, as_json=asked.as_json)


def _analyse_features(asked: FewShotRequest, figure: Path) -> None:
    """Measure few-shot accuracy and variance of features of the runs; draw them to a file and print them."""
    Outputs().add_figure("--out", figure).check(files_read_for(asked.runs, asked.run_root))
    checkpoints, split = load_named_checkpoints(asked.runs, asked.session)
    from mptctl.inference.discriminability import DiscriminabilityReport, measure_discriminability
    from mptctl.report.documents.few_shot import discriminability_document
    from mptctl.report.figures.few_shot import draw_discriminability
    from mptctl.report.media.svg import save_figure

    with showing_progress(asked.session) as session:
        measured = measure_discriminability(checkpoints, split, asked, session)
    save_figure(draw_discriminability(measured), figure)
    report = DiscriminabilityReport(runs=measured, figure=str(figure))
    show(report, discriminability_document, as_json=asked.as_json)
    if not asked.as_json:
        typer.echo(str(figure))
