"""`mptctl figure`: draw what models have learnt, and what they see in training."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import typer

from mptctl.cli.outputs import Outputs, files_read_for
from mptctl.data.held_split import relocate
from mptctl.data.listing.requests import SheetRequest
from mptctl.data.split import load_split
from mptctl.inference.own_models import load_named_checkpoints
from mptctl.inference.requests import EmbeddingRequest
from mptctl.recipe import DEFAULT_PRESET, load_recipe
from mptctl.recipe.picture_words import describe_training_pictures
from mptctl.report.documents.class_names import class_name
from mptctl.report.media.progress_bars import showing_progress
from mptctl.report.media.svg import save_figure

# Modules with torch, which takes seconds to import, are imported after the checks, so that a missing model or
# split is reported at once.


def draw_embedding(asked: EmbeddingRequest) -> None:
    """Draw test pictures in the embedding of each run, a panel each, and print the figure's path."""
    path = asked.out or asked.run_root / "embedding.png"
    Outputs().add_figure("--out", path).check(files_read_for(asked.runs, asked.run_root))
    checkpoints, split = load_named_checkpoints(asked.runs, asked.session)
    from mptctl.inference.embedding import compute_embeddings
    from mptctl.report.figures.embedding import draw_embeddings

    with showing_progress(asked.session) as session:
        embeddings = compute_embeddings(checkpoints, split, session)
    # A panel has the name of the run's folder, unless two runs share that name.
    titles = {name: Path(name).name for name in embeddings}
    if len(set(titles.values())) < len(titles):
        titles = {name: name for name in embeddings}
    names_for_people = split.file.class_labels or {}
    panels = {}
    for name, embedding in embeddings.items():
        class_names = tuple(class_name(names_for_people, label) for label in embedding.class_names)
        panels[titles[name]] = replace(embedding, class_names=class_names)
    save_figure(draw_embeddings(panels), path)
    typer.echo(str(path))


def draw_training_pictures(asked: SheetRequest) -> None:
    """Draw a sheet of training pictures with labels; print how they were made, and the figure's path."""
    path = asked.out or asked.run_root / "augment.png"
    Outputs().add_figure("--out", path).check([])
    split = relocate(load_split(asked.run_root), asked.data_root)
    base = DEFAULT_PRESET[split.file.source]
    chosen = load_recipe(asked.recipe or base, asked.overrides, base=base)
    from mptctl.data.sheet import make_training_sheet
    from mptctl.report.figures.augment import draw_sheet

    sheet = make_training_sheet(split, chosen, asked.pictures, asked.epoch)
    names_for_people = split.file.class_labels or {}
    captions = []
    for weights in sheet.labels:
        # A mixed picture has several labels, each with its weight.
        lines = [
            class_name(names_for_people, label) + (f" {weight:.2f}" if len(weights) > 1 else "")
            for label, weight in weights.items()
        ]
        captions.append("\n".join(lines))
    save_figure(draw_sheet(sheet.pictures, captions), path)
    typer.echo(describe_training_pictures(chosen.data), err=True)
    typer.echo(str(path))
