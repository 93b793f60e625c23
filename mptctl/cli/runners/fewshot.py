"""The work of `mptctl fewshot`: measure episodes, or compare features of several runs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import typer

from mptctl.cli.messages import warn
from mptctl.cli.outputs import Outputs, files_read_for
from mptctl.cli.show import show
from mptctl.files import read_names
from mptctl.inference.own_models import load_named_checkpoints
from mptctl.names import Session
from mptctl.report.media.progress_bars import showing_progress

# Modules with torch, which takes seconds to import, are imported after the checks, so that a missing model is
# reported at once.


def measure_episodes(
    run: str, session: Session, episodes: Mapping[str, int], classes: Path | None, *, as_json: bool
) -> None:
    """Measure few-shot accuracy, and print it and its warnings.

    Args:
        run: the model whose features are tested.
        session: where runs are and where models compute.
        episodes: the fields of `EpisodeRequest`.
        classes: a file with the novel classes; None: all of the split that the run does not know.
        as_json: print JSON.
    """
    chosen = None if classes is None else read_names(classes, "--classes")
    checkpoints, split = load_named_checkpoints([run], session)
    from mptctl.inference.few_shot import EpisodeRequest, measure_few_shot

    with showing_progress(session) as session:
        report = measure_few_shot(
            checkpoints[run], split, EpisodeRequest(**episodes), session, classes=chosen
        )
    warn(report.warnings)
    show(report, "few_shot:few_shot_document", as_json=as_json)


def analyse_features(
    runs: list[str], session: Session, figure: Path, episodes: Mapping[str, int], *, as_json: bool
) -> None:
    """Measure few-shot accuracy and variance of features for runs of different margins, draw and print them.

    Args:
        runs: trained with different margins.
        session: where runs are and where models compute.
        figure: the file that the figure is written to.
        episodes: the fields of `EpisodeRequest`.
        as_json: print JSON.
    """
    outputs = Outputs()
    outputs.add_figure("--out", figure)
    outputs.check(files_read_for(runs, session.run_root))
    checkpoints, split = load_named_checkpoints(runs, session)
    from mptctl.inference.discriminability import DiscriminabilityReport, measure_discriminability
    from mptctl.inference.few_shot import EpisodeRequest
    from mptctl.report.figures.few_shot import draw_discriminability
    from mptctl.report.media.svg import save_figure

    with showing_progress(session) as session:
        measured = measure_discriminability(checkpoints, split, EpisodeRequest(**episodes), session)
    save_figure(draw_discriminability(measured), figure)
    report = DiscriminabilityReport(runs=measured, figure=str(figure))
    show(report, "few_shot:discriminability_document", as_json=as_json)
    if not as_json:
        typer.echo(str(figure))
