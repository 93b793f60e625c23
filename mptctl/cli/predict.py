"""`mptctl predict`: what a model answers to pictures without labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.messages import warn
from mptctl.names import OnBad, Session, Verify


def predict(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The model: run name, run folder or .pt file.")],
    folder: Annotated[
        Path,
        typer.Argument(metavar="DIR", help="Folder of pictures, at any depth; ids are paths below it."),
    ],
    out: Annotated[
        Path, typer.Option("--out", metavar="FILE", help="Where predictions go: .npz, .csv or .parquet.")
    ],
    run_root: opt.RunRoot = Path("runs"),
    verify: Annotated[
        Verify, typer.Option("--verify", help="Look at each file's header and ends, or decode it all.")
    ] = "header",
    on_bad: Annotated[
        OnBad, typer.Option("--on-bad", help="Refuse bad files, or leave them out and name them.")
    ] = "fail",
    device: opt.ModelDevice = "auto",
) -> None:
    """Write a model's predictions for pictures without labels.

    Writes id, pred and confidence; .npz and .parquet also hold logits and classes. With a column `label`
    added, evaluate reads the file.

    Examples:

        mptctl predict mpt-kl ~/incoming --out answers.csv

        mptctl predict mpt-kl ~/incoming --out answers.parquet --on-bad quarantine
    """
    from mptctl.cli.outputs import Outputs, read_for_models
    from mptctl.data.derived_splits import refuse_no_folder
    from mptctl.data.picture_kinds import passed_over_at_any_depth
    from mptctl.evaluation.reading.answers import ANSWERS, answers_writer
    from mptctl.models.run_folder import find_checkpoint
    from mptctl.report.media.progress_bars import progress_bars

    outputs = Outputs()
    answers_writer(out)
    outputs.file("--out", out, ANSWERS)
    outputs.check(read_for_models([run], run_root))
    # What is not there is said before torch is imported.
    find_checkpoint(run, run_root)
    refuse_no_folder(folder.expanduser())
    from mptctl.inference.loaded import load_run

    model = load_run(run, Session(run_root, device))
    if model.unfinished is not None:
        warn([model.unfinished])
    with progress_bars() as progress:
        found = model.predict_folder(folder, on_bad=on_bad, verify=verify, progress=progress)
    for line in found.left_out:
        typer.echo(f"left out: {line}", err=True)
    for line in passed_over_at_any_depth(folder.expanduser()).lines():
        typer.echo(line, err=True)
    typer.echo(f"{len(found):,} pictures predicted, {len(found.left_out):,} left out", err=True)
    typer.echo(str(found.save(out)))
