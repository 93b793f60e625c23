"""`mptctl figure`: pictures of what models have learnt, and of what they see in training."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.command import command_group
from mptctl.names import Session

app = command_group("Draw what models have learnt, and what they train on.")


@app.command("embedding")
def embedding(
    runs: Annotated[
        list[str], typer.Argument(metavar="RUN...", help="Run names, run folders or .pt files; a panel each.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="A .png or .svg file. (default: embedding.png below the run root)"
        ),
    ] = None,
    run_root: opt.RunRoot = Path("runs"),
    data_root: opt.MovedData = None,
    device: opt.Device = None,
) -> None:
    """Draw test pictures as models with a 2-dimensional embedding see them, over the regions of their
    classes.

    Old and new classes have different markers, and a line parts their regions. The models are trained with
    model.embedding_dim=2.

    Examples:

        mptctl train-mpt --recipe cifar10-embedding

        mptctl figure embedding old no-treatment mpt-kl --out embedding.svg
    """
    from mptctl.cli.runners.figure import draw_embedding

    session = Session(run_root, device or "auto", data_root=data_root)
    draw_embedding(runs, session, run_root / "embedding.png" if out is None else out)


@app.command("augment")
def augment(
    recipe: opt.RecipeName = None,
    overrides: opt.Overrides = None,
    pictures: Annotated[
        int, typer.Option("--pictures", metavar="N", min=2, max=200, help="Pictures on the sheet.")
    ] = 32,
    epoch: Annotated[
        int, typer.Option("--epoch", metavar="N", min=0, help="Epoch whose first pictures are drawn, from 0.")
    ] = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out", metavar="FILE", help="A .png or .svg file. (default: augment.png below the run root)"
        ),
    ] = None,
    run_root: opt.RunRoot = Path("runs"),
    data_root: opt.MovedData = None,
) -> None:
    """Draw training pictures as the model sees them: cut, transformed and mixed as the recipe says.

    They are the first ones of an epoch, bit by bit what a run with this recipe and seed is given; the colours
    are those before normalisation.

    Examples:

        mptctl figure augment --recipe mine.yaml

        mptctl figure augment --set data.mixup=0.2 --epoch 1
    """
    from mptctl.cli.runners.figure import draw_training_pictures

    session = Session(run_root, data_root=data_root)
    path = run_root / "augment.png" if out is None else out
    draw_training_pictures(recipe, overrides, session, pictures, epoch, path)
