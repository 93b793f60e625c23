"""Names that recipes, programs and the command line share, and the session of a command; a light import."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Literal, get_args

# Sources that are named; all, with those that are recognised as a place.
NamedSource = Literal["characters", "digits", "cifar10", "cifar100", "imagefolder"]
Source = Literal[NamedSource, "table", "webdataset"]
# Kinds of places that pictures lie in; those of the last two are packed first.
PlaceKind = Literal["imagefolder", "table", "webdataset", "parquet", "arrow"]
# Roles of the columns of a table of pictures.
ColumnRole = Literal["path", "label", "split", "id", "group"]
Part = Literal["train", "val", "test"]
LoaderName = Literal["auto", "resident", "dali", "threaded"]
Distance = Literal["kl", "lm"]
HeadName = Literal["linear", "cosine", "linear-margin"]
MethodName = Literal[
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
]
METHOD_NAMES: tuple[str, ...] = get_args(MethodName)
# Samples on which a method distils, begin of the new model, and course of the bias k over a run.
Gate = Literal["none", "student-wrong"]
Init = Literal["fresh", "old", "ref"]
KSchedule = Literal["constant", "linear-to-zero", "linear-from-zero"]
# Order in which a network takes the channels of a picture.
Channels = Literal["rgb", "bgr"]
# Forms in which a model leaves.
ExportFormat = Literal["onnx", "pt2", "safetensors"]
# Of these, the ones that are read back as models.
READ_FORMATS: tuple[ExportFormat, ...] = ("onnx", "safetensors")
# Types to which its numbers are rounded then.
Quantization = Literal["int8", "fp16"]
# Order of the classes of a split, check of its files, and treatment of bad ones.
Order = Literal["given", "random"]
Verify = Literal["header", "decode"]
OnBad = Literal["fail", "quarantine"]
OnDuplicates = Literal["keep", "quarantine"]
# Forms of a copy of pictures.
PackForm = Literal["folder", "shards"]
# Combination of values in tune, and key by which a table of classes is sorted.
Search = Literal["grid", "random", "optuna"]
SortKey = Literal["flips", "nfr", "error", "name"]
# Told how far something is: (what is under way, done, in all).
Progress = Callable[[str, int, int], None]
# Flips that a tracker gets at most, the most confident first.
LOGGED_FLIPS = 10_000


class Role(StrEnum):
    """Model that a teacher's logits come from: the old model, or the reference (of several, their mean)."""

    OLD = "old"
    REF = "ref"


class TrackerName(StrEnum):
    """Trackers to which a run is logged besides its folder."""

    MLFLOW = "mlflow"
    WANDB = "wandb"
    TENSORBOARD = "tensorboard"


def tell_nobody(what: str, done: int, total: int) -> None:
    """Drops what it is told, where nobody wants to know how far something is."""


@dataclass(frozen=True)
class Session:
    """The surroundings of a command, which it hands down to all that computes for it.

    Attributes:
        run_root: folder of the split and of all run folders.
        device: where models compute: auto, cpu, cuda or cuda:N.
        progress: told how far each pass is.
        data_root: folder of the split's pictures now; None: where they were when it was made.
    """

    run_root: Path = Path("runs")
    device: str = "auto"
    progress: Progress = tell_nobody
    data_root: Path | None = None
