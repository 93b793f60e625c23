"""`mptctl adjust`: shift a trained update until it keeps a budget of flips, or fit its temperature."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints
from mptctl.names import Session


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
        opt.max_nfr("Largest NFR: the shift of least error that keeps it, at --confidence, is chosen."),
    ] = None,
    max_er_increase: Annotated[
        float | None,
        typer.Option(
            "--max-er-increase",
            metavar="PTS",
            help="Largest increase of error on all classes, in points: the shift of least NFR that keeps it "
            "is chosen.",
        ),
    ] = None,
    confidence: Annotated[float | None, opt.confidence()] = None,
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
            help="NFR against error as .svg or .png. (default: adjust.svg in the run folder)",
        ),
    ] = None,
    run_root: opt.RunRoot = Path("runs"),
    data_root: opt.MovedData = None,
    overwrite: opt.Overwrite = False,
    device: opt.ModelDevice = "auto",
    as_json: opt.Json = False,
) -> None:
    """Shift a trained update until it keeps a budget of flips.

    The shift is a constant, subtracted from the logits of all new classes; the model is written as a new
    run. The shift is chosen on the validation part; the test part is
    not read. Exits with 3, and writes nothing, where no shift keeps the budget, and names the least NFR
    that a shift reaches.

    Examples:

        mptctl adjust mpt-kl --old old --max-nfr 2

        mptctl adjust no-treatment --old old --max-er-increase 0.5

        mptctl adjust mpt-kl --temperature
    """
    from mptctl.cli.budget import budget_of_flags
    from mptctl.cli.runners.adjust import adjust_and_show
    from mptctl.release.adjust_report import AdjustRequest

    budget = budget_of_flags(max_nfr, max_er_increase, confidence)
    request = AdjustRequest(new, old, budget, temperature, name, overwrite)
    adjust_and_show(request, Session(run_root, device, data_root=data_root), figure, as_json)
