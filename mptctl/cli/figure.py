"""`mptctl figure`: pictures of what models have learnt, and of what they see in training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.command import command_group
from mptctl.names import Session

app = command_group("Draw what models have learnt, and what they see in training.")


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
    from mptctl.cli.outputs import Outputs, read_for_models
    from mptctl.inference.named_models import named_checkpoints

    path = run_root / "embedding.png" if out is None else out
    outputs = Outputs()
    outputs.figure("--out", path)
    outputs.check(read_for_models(runs, run_root))
    session = Session(run_root, device or "auto", data_root=data_root)
    checkpoints, split = named_checkpoints(runs, session)
    # Here, because they take seconds to import, and that a model is not there is to be said at once.
    from mptctl.inference.embedding import embed
    from mptctl.report.documents.class_names import class_name
    from mptctl.report.figures.embedding import draw_embeddings
    from mptctl.report.media.progress_bars import showing_progress
    from mptctl.report.media.svg import save_figure

    with showing_progress(session) as session:
        found = embed(checkpoints, split, session)
    # A panel has the name of the run's folder, where that says which one it is.
    short = {name: Path(name).name for name in found}
    names = short if len(set(short.values())) == len(short) else {name: name for name in found}
    labels = split.file.class_labels or {}
    panels = {
        names[name]: replace(each, class_names=tuple(class_name(labels, label) for label in each.class_names))
        for name, each in found.items()
    }
    save_figure(draw_embeddings(panels), path)
    typer.echo(str(path))


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
    from mptctl.cli.outputs import Outputs
    from mptctl.data.held_split import relocate
    from mptctl.data.split import load_split
    from mptctl.recipe import DEFAULT_PRESET, load_recipe

    path = run_root / "augment.png" if out is None else out
    outputs = Outputs()
    outputs.figure("--out", path)
    outputs.check([])
    split = relocate(load_split(run_root), data_root)
    base = DEFAULT_PRESET[split.file.source]
    chosen = load_recipe(recipe or base, overrides or [], base=base)
    from mptctl.data.sheet import training_sheet
    from mptctl.recipe.picture_words import training_words
    from mptctl.report.documents.class_names import class_name
    from mptctl.report.figures.augment import draw_sheet
    from mptctl.report.media.svg import save_figure

    sheet = training_sheet(split, chosen, pictures, epoch)
    known = split.file.class_labels or {}
    captions = []
    for labels in sheet.labels:
        weights = [f" {weight:.2f}" if len(labels) > 1 else "" for weight in labels.values()]
        names = [class_name(known, label) for label in labels]
        captions.append("\n".join(map("".join, zip(names, weights, strict=True))))
    save_figure(draw_sheet(sheet.pictures, captions), path)
    typer.echo(training_words(chosen.data), err=True)
    typer.echo(str(path))
