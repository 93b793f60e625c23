"""The settings of `mptctl bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field

from mptctl.files.request import Device, Flag, Json, Overrides, Plugins, Request


class LoaderRequest(Request):
    """The loaders to measure, and on which pictures."""

    data_root: Annotated[Path | None, Flag("DIR")] = None
    """Folder with train/CLASS/*. (default: generated JPEGs)"""
    recipe: Annotated[str, Flag("NAME_OR_FILE")] = "imagenet"
    """Picture size, augmentation, batch, model."""
    overrides: Overrides = Field([])
    plugins: Plugins = Field([])
    rows: Annotated[str | None, Flag("NAMES")] = None
    """Only these rows, with commas between."""
    repeats: Annotated[int, Flag("N", low=1)] = 5
    """Runs of each row; rows take turns."""
    seconds: Annotated[float, Flag("S", low=0.1)] = 5.0
    """Length of a run."""
    device: Device = None
    as_json: Json = False


class KernelRequest(Request):
    """The sizes at which the loss is measured."""

    rows: Annotated[str | None, Flag("N,N")] = None
    """Batch sizes. (default: 128,4096)"""
    classes: Annotated[str | None, Flag("N,N")] = None
    """Numbers of classes. (default: 100,1000,21841)"""
    dtypes: Annotated[str | None, Flag("NAMES")] = None
    """Types. (default: float32,bfloat16)"""
    repeats: Annotated[int, Flag("N", low=1)] = 25
    """Timed runs of each row."""
    device: Device = None
    as_json: Json = False


class StepRequest(Request):
    """The training step to measure."""

    recipe: Annotated[str, Flag("NAME_OR_FILE")] = "cifar100"
    """Model, picture size, batch, threads."""
    overrides: Overrides = Field([])
    plugins: Plugins = Field([])
    classes: Annotated[int, Flag("N", low=2)] = 100
    """Number of classes; half of them are old."""
    rows: Annotated[str | None, Flag("NAMES")] = None
    """Only these rows, with commas between."""
    precision: Annotated[str | None, Flag("NAMES")] = None
    """fp32, bf16 or both, with a comma, of student and teachers. (default: the recipe's)"""
    steps: Annotated[int, Flag("N", low=1)] = 10
    """Steps of a run."""
    repeats: Annotated[int, Flag("N", low=1)] = 5
    """Runs of each row; rows take turns."""
    clock: Annotated[Literal["wall", "cpu"], Flag()] = "wall"
    """wall; or cpu, where other jobs share the processor."""
    device: Device = None
    as_json: Json = False
