"""`mptctl predict`: write a model's predictions for pictures without labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.names import OnBad, Session, Verify


def predict(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The model: run name, run folder or .pt file.")],
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            help="Folder of pictures, at any depth; ids are paths below it. Or a table of paths, or tar "
            "shards ('DIR/*.tar').",
        ),
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
    from mptctl.cli.runners.predict import predict_folder

    predict_folder(run, folder, out, Session(run_root, device), verify=verify, on_bad=on_bad)
