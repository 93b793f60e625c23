"""`mptctl import`: a model that was trained elsewhere becomes a run folder."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.errors import UsageError
from mptctl.names import Channels, Session


def import_(
    weights: Annotated[
        Path,
        typer.Argument(
            metavar="WEIGHTS",
            help="File with a state dict (.pt, .safetensors), an ONNX model, or a folder with "
            "model.safetensors and the config.json of timm.",
        ),
    ],
    arch: Annotated[
        str | None,
        typer.Option(
            "--arch",
            metavar="NAME",
            help="Architecture, by torchvision's name or as timm:NAME. (default: what config.json says)",
        ),
    ] = None,
    class_names: Annotated[
        Path | None,
        typer.Option(
            "--class-names",
            metavar="FILE",
            help="Class names, one a line, in the order of the logits. (default: what the model says)",
        ),
    ] = None,
    channels: Annotated[
        Channels,
        typer.Option("--channels", help="Order in which the model takes the channels of a picture."),
    ] = "rgb",
    name: Annotated[
        str, typer.Option("--name", metavar="RUN", help="Run folder below the run root.")
    ] = "old",
    run_root: opt.RunRoot = Path("runs"),
    recipe: opt.RecipeName = None,
    overrides: opt.Overrides = None,
    overwrite: opt.Overwrite = False,
) -> None:
    """Bring in a model that was trained elsewhere.

    Writes a run folder that serves as old model or as reference. Head and stem are those of the weights;
    pictures are prepared as the recipe's data group says (--set changes it). Where there is a split, prints
    the error on its validation part; a warning follows if another common way to prepare pictures has a
    clearly lower error, or if the error is at chance level. Without a split, --recipe is needed. An ONNX
    model can be evaluated and can teach, but is never trained.

    Examples:

        mptctl import production.pt --arch resnet18 --class-names classes.txt

        mptctl import other.pt --arch resnet50 --class-names all.txt --name ref

        mptctl import ~/models/resnet18.a1_in1k --class-names classes.txt

        mptctl import production.onnx --class-names classes.txt
    """
    import json

    from mptctl.data.held_split import hold_manifest
    from mptctl.data.split import load_split
    from mptctl.data.split_file import SPLIT_NAME

    split = None
    if (run_root / SPLIT_NAME).exists():
        split = load_split(run_root)
    elif recipe is None:
        raise UsageError(
            f"no {SPLIT_NAME} in {run_root}: nothing says how the model sees pictures; name a recipe with "
            "--recipe, or run mptctl split SOURCE first"
        )
    # After the split, whose absence is to be said at once: what trains takes seconds to import.
    from mptctl.inference.imported import look_at_imported
    from mptctl.models.importing import prepare_import, read_class_names, write_import
    from mptctl.models.ownership import refuse_own_inputs, run_folder
    from mptctl.models.published import find_described
    from mptctl.recipe import DEFAULT_PRESET, load_recipe
    from mptctl.report.media.progress_bars import showing_progress

    folder = run_folder(run_root, name)
    refuse_own_inputs(folder, () if class_names is None else (class_names,))
    said = find_described(weights.expanduser(), arch)
    if said is None:
        raise UsageError(
            f"{weights}: nothing says which network these weights are of; name it with --arch, such as "
            "--arch resnet18"
        )
    names: Sequence[str] | None = said.class_names if class_names is None else read_class_names(class_names)
    if names is None:
        raise UsageError(f"{weights}: does not name its classes; give --class-names FILE, one a line")
    seen = [f"data.{key}={json.dumps(value)}" for key, value in said.data.items()]

    def say(text: str) -> None:
        typer.echo(f"{name}: {text}", err=True)

    preset = recipe or (DEFAULT_PRESET[split.file.source] if split else "")
    fixed = {"model.arch": said.arch, "model.pretrained": None, "method.name": "no-treatment"}
    checkpoint = prepare_import(
        said.weights,
        class_names=names,
        recipe=load_recipe(preset, [*seen, *(overrides or [])], fixed),
        folder=folder,
        classes=split.classes.names if split else None,
        num_old=split.classes.num_old if split else 0,
        channels=channels,
        overwrite=overwrite,
        log=say,
    )
    # Before anything is written: what cannot be measured leaves no run.
    with showing_progress(Session(run_root, checkpoint.meta.recipe.runtime.device)) as session:
        found = look_at_imported(checkpoint, channels, split, session)
    split_json = split.file.model_dump_json(indent=2) if split else None
    path = write_import(checkpoint, split_json, overwrite=overwrite, log=say)
    if split is not None:
        hold_manifest(split, folder)
    for line in [*said.notes, *found.lines, *([found.warning] if found.warning else [])]:
        say(line)
    typer.echo(str(path))
