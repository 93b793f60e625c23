"""The settings of `mptctl import`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

from mptctl.files.request import (
    Flag,
    Overrides,
    Overwrite,
    Plugins,
    RecipeName,
    Request,
    RunRoot,
    argument,
)
from mptctl.names import Channels


class ImportRequest(Request):
    """A model that was trained elsewhere, and the run that it becomes."""

    weights: Annotated[Path, argument("WEIGHTS")]
    """File with a state dict (.pt, .safetensors), an ONNX model, or a folder with model.safetensors and the
    config.json of timm."""
    arch: Annotated[str | None, Flag("NAME")] = None
    """Architecture, by torchvision's name or as timm:NAME. (default: as in config.json)"""
    class_names: Annotated[Path | None, Flag("FILE")] = None
    """Class names, one a line, in the order of the logits. (default: as in the model's file)"""
    channels: Annotated[Channels, Flag()] = "rgb"
    """Order of a picture's channels that the model expects."""
    size: Annotated[int | None, Flag("PX", low=1)] = None
    """Side of the pictures that the model sees; nothing is cut off. (default: the recipe's)"""
    name: Annotated[str, Flag("RUN")] = "old"
    """Run folder below the run root."""
    run_root: RunRoot = Path("runs")
    recipe: RecipeName = None
    overrides: Overrides = Field([])
    plugins: Plugins = Field([])
    overwrite: Overwrite = False
