"""Names that recipes, Python programs and the command line share, and the session of a command.

It is imported by every command, so it imports nothing that is slow to load.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal

# Sources of pictures that a user gives by name.
NamedSource = Literal["characters", "digits", "cifar10", "cifar100", "imagefolder"]
# All sources: besides the named ones, the two that are recognised by the place that a user gives.
Source = Literal[NamedSource, "table", "webdataset"]
# Kinds of places that pictures lie in; pictures in Parquet or Arrow files are packed into a copy first.
PlaceKind = Literal["imagefolder", "table", "webdataset", "parquet", "arrow"]
# Roles of the columns of a table of pictures.
ColumnRole = Literal["path", "label", "split", "id"]
Part = Literal["train", "val", "test"]
LoaderName = Literal["auto", "resident", "dali", "threaded"]
Distance = Literal["kl", "lm"]
HeadName = Literal["linear", "cosine", "linear-margin"]
METHOD_NAMES: tuple[str, ...] = (
    "no-treatment",
    "pct-naive",
    "pct-kl",
    "pct-lm",
    "pct-kl-own",
    "mpt-kl",
    "mpt-lm",
    "mpt-nodistill",
    "mpt-kl-noref",
    "mpt-lm-noref",
    "mpt-kl-nobias",
    "mpt-lm-nobias",
    "elodi",
    "elodi-topk",
)
# Samples on which a method distils: all, or those that the new model gets wrong.
Gate = Literal["none", "student-wrong"]
# Weights that the new model begins with: fresh ones, the old model's or the reference's.
Init = Literal["fresh", "old", "ref"]
# Course of the bias k over a run.
KSchedule = Literal["constant", "linear-to-zero", "linear-from-zero"]
# Order in which a network takes the channels of a picture.
Channels = Literal["rgb", "bgr"]
# File formats of an exported model, which are read back as models too.
ExportFormat = Literal["onnx", "safetensors"]
# Order of the classes of a split.
Order = Literal["given", "random"]
# How much of each picture's file a split checks, and what it does with bad pictures and with duplicates.
Verify = Literal["header", "decode"]
OnBad = Literal["fail", "quarantine"]
OnDuplicates = Literal["keep", "quarantine"]
# Forms of a copy of pictures.
PackForm = Literal["folder", "shards"]
# How `tune` combines values.
Sampler = Literal["grid", "random", "optuna"]
# Variable of the environment with files of plugins, which processes below this one run too.
PLUGINS = "MPTCTL_PLUGINS"
# Callback that shows progress: (what is under way, how much is done, how much there is).
Progress = Callable[[str, int, int], None]


class Role(StrEnum):
    """Model that a teacher's logits come from: the old model, or the reference (of several, their mean)."""

    OLD = "old"
    REF = "ref"


class TrackerName(StrEnum):
    """Tracker to which a run is logged besides its folder."""

    MLFLOW = "mlflow"
    WANDB = "wandb"


def tell_nobody(what: str, done: int, total: int) -> None:
    """Show no progress: a `Progress` that does nothing."""


@dataclass(frozen=True)
class Session:
    """Settings of a command that all its computations share.

    Attributes:
        run_root: folder of the split and of all run folders.
        device: where models compute: auto, cpu, cuda or cuda:N.
        progress: called with how far each pass is.
        data_root: folder of the split's pictures, if it was moved; None: as the split was made.
    """

    run_root: Path = Path("runs")
    device: str = "auto"
    progress: Progress = tell_nobody
    data_root: Path | None = None
