"""`mptctl import`: make a run folder of a model that was trained elsewhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.names import Channels


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
    size: Annotated[
        int | None,
        typer.Option(
            "--size",
            metavar="PX",
            min=1,
            help="Side of the pictures that the model sees; nothing is cut off. (default: the recipe's)",
        ),
    ] = None,
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

        mptctl import small.pt --arch resnet18 --class-names classes.txt --size 32

        mptctl import other.pt --arch resnet50 --class-names all.txt --name ref

        mptctl import ~/models/resnet18.a1_in1k --class-names classes.txt

        mptctl import production.onnx --class-names classes.txt
    """
    from mptctl.cli.runners.import_ import import_model

    import_model(
        weights,
        run_root,
        arch=arch,
        class_names=class_names,
        channels=channels,
        size=size,
        name=name,
        recipe=recipe,
        overrides=overrides or [],
        overwrite=overwrite,
    )
