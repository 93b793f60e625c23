"""`mptctl figure`: pictures of what models have learnt."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.command import command_group
from mptctl.names import Session

app = command_group("Draw what models have learnt.")


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
    checkpoints, split = named_checkpoints(runs, run_root)
    # Here, because they take seconds to import, and that a model is not there is to be said at once.
    from mptctl.inference.embedding import embed
    from mptctl.report.documents.class_names import class_name
    from mptctl.report.figures.embedding import draw_embeddings
    from mptctl.report.media.progress_bars import showing_progress
    from mptctl.report.media.svg import save_figure

    with showing_progress(Session(run_root, device or "auto")) as session:
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
