"""`mptctl adjust`: after training, a bias and a temperature that keep a budget."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.budget import budget_of_flags, refuse_floor_without_budget
from mptctl.cli.json_models import prints
from mptctl.errors import visible
from mptctl.names import Session

if TYPE_CHECKING:
    from mptctl.release.adjusting import Adjusted, AdjustRequest

FIGURE = "adjust.svg"


@prints({"--json": "mptctl.release.adjust_report:AdjustReport"})
def adjust(
    new: Annotated[str, typer.Argument(metavar="NEW", help="The update: run name, run folder or .pt file.")],
    old: Annotated[
        str | None,
        typer.Option(
            "--old",
            metavar="OLD",
            help="Old model: run name, run folder or .pt file; not needed for --temperature alone.",
        ),
    ] = None,
    max_nfr: Annotated[
        float | None,
        typer.Option(
            "--max-nfr",
            metavar="PCT",
            help="Largest NFR: the shift of least error that keeps it, at --confidence, is chosen.",
        ),
    ] = None,
    max_er_increase: Annotated[
        float | None,
        typer.Option(
            "--max-er-increase",
            metavar="PTS",
            help="Largest increase of error on all classes, in points: the shift of least NFR that keeps it is chosen.",
        ),
    ] = None,
    confidence: Annotated[
        float,
        typer.Option(
            "--confidence", help="Level of the two-sided interval of NFR whose upper end must keep --max-nfr."
        ),
    ] = 0.95,
    noise_floor: opt.NoiseFloor = None,
    temperature: Annotated[
        bool, typer.Option("--temperature", help="Fit a temperature, which changes calibration alone.")
    ] = False,
    name: Annotated[
        str | None,
        typer.Option("--name", metavar="RUN", help="Run folder below the run root. (default: NEW-adjusted)"),
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(
            "--figure",
            metavar="FILE",
            help=f"NFR against error as .svg or .png. (default: {FIGURE} in the run folder)",
        ),
    ] = None,
    run_root: opt.RunRoot = Path("runs"),
    overwrite: opt.Overwrite = False,
    device: opt.ModelDevice = "auto",
    as_json: opt.Json = False,
) -> None:
    """Shift a trained update until it keeps a budget of flips.

    The shift is a constant, subtracted from the new classes' logits (one for all new classes, or one for
    each); the model is written as a new run. The shift is chosen on the validation part; the test part is
    not read. Exits with 3, and writes nothing, where no shift keeps the budget, and names the least NFR
    that a shift reaches.

    Examples:

        mptctl adjust mpt-kl --old old --max-nfr 2

        mptctl adjust no-treatment --old old --max-er-increase 0.5

        mptctl adjust mpt-kl --temperature
    """
    budget = budget_of_flags(max_nfr, max_er_increase, confidence)
    refuse_floor_without_budget(noise_floor, max_nfr)
    _check_figure(figure, [new, old, noise_floor], run_root, as_json, drawn=budget is not None)
    from mptctl.models.run_folder import find_checkpoint

    # Before torch, which takes seconds to import: that a model is not there is to be said at once.
    for run in (new, old, noise_floor):
        if run is not None:
            find_checkpoint(run, run_root)
    from mptctl.release.adjusting import AdjustRequest
    from mptctl.report.documents.adjust import describe_adjustment

    adjusted = adjust_and_draw(
        AdjustRequest(new, old, budget, temperature, name, overwrite, noise_floor),
        Session(run_root, device),
        figure,
    )
    if as_json:
        typer.echo(adjusted.report.model_dump_json())
        return
    typer.echo(
        "\n".join([*describe_adjustment(adjusted.report, adjusted.class_labels), adjusted.report.best])
    )


def adjust_and_draw(request: AdjustRequest, session: Session, figure: Path | None = None) -> Adjusted:
    """Adjust a run, draw what was chosen from, and say what is to be known of it.

    Args:
        request: what was asked for.
        session: where runs are and where models compute.
        figure: where the figure goes; None: into the new run's folder.
    """
    from mptctl.release.adjusting import adjust as adjust_run
    from mptctl.report.media.progress_bars import showing_progress

    with showing_progress(session) as session:
        adjusted = adjust_run(request, session)
    if adjusted.choice is not None:
        from mptctl.report.figures.adjust import draw_adjustment
        from mptctl.report.media.svg import save_figure

        path = figure or adjusted.folder.path / FIGURE
        save_figure(draw_adjustment(adjusted.report, adjusted.choice, adjusted.mixture), path)
        typer.echo(f"wrote {path}", err=True)
    for warning in adjusted.report.warnings:
        typer.echo(f"warning: {visible(warning)}", err=True)
    return adjusted


def _check_figure(
    figure: Path | None, models: list[str | None], run_root: Path, as_json: bool, *, drawn: bool
) -> None:
    """Refuse a figure that cannot be drawn or would destroy what is read, before anything is computed."""
    from mptctl.cli.outputs import Outputs, read_for_models
    from mptctl.errors import UsageError
    from mptctl.files.output_kinds import figure_kind

    if figure is None:
        return
    if figure.suffix.lower() not in (".svg", ".png"):
        raise UsageError(f"--figure {figure}: is neither .svg nor .png; name one of them")
    if not drawn:
        raise UsageError("--figure: shows flips against error; give --max-nfr or --max-er-increase, too")
    outputs = Outputs()
    outputs.file("--figure", figure, figure_kind(figure))
    outputs.check(read_for_models(models, run_root), prints=as_json)
