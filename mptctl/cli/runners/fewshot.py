"""The work of `mptctl fewshot`: measure episodes, compare features of several runs, or add classes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from mptctl.cli.messages import warn
from mptctl.cli.outputs import Outputs, files_read_for
from mptctl.cli.show import show
from mptctl.files import read_names
from mptctl.inference.own_models import load_named_checkpoints
from mptctl.models.run_folder import find_checkpoint
from mptctl.names import Session
from mptctl.report.media.progress_bars import showing_progress

if TYPE_CHECKING:
    from mptctl.release.adding import AddReport

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


def add_from_pictures(
    run: str, session: Session, pictures: Path, name: str, *, overwrite: bool, as_json: bool
) -> None:
    """Write a run that knows further classes, and print the flips that adding them costs.

    Args:
        run: the model to which classes are added.
        session: where runs are and where models compute.
        pictures: a folder with a folder of pictures for each new class.
        name: of the new run's folder.
        overwrite: throw away the run that is in that folder.
        as_json: print JSON.
    """
    find_checkpoint(run, session.run_root)
    from mptctl.release.adding import AddRequest, add_classes

    request = AddRequest(run, pictures, name, overwrite)
    with showing_progress(session) as session:
        report = add_classes(request, session)
    warn(report.warnings)
    show(report, _print_added, as_json=as_json)


def _print_added(report: AddReport) -> None:
    """Print the new classes, their shift and the flips that it leaves, and the path of the checkpoint."""
    for label, count in report.classes.items():
        typer.echo(f"added {label} from {count} pictures")
    typer.echo(
        f"{report.constant:g} taken off their logits: {report.flips:,} of {report.right:,} right predictions "
        "on validation pictures flip"
    )
    typer.echo(report.best)


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
