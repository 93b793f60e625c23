"""Requests: the settings of a job in one record, whose fields are the options of its command."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict

from mptctl.files.model import Model
from mptctl.names import Session, TrackerName


@dataclass(frozen=True)
class Flag:
    """The help of a field of a request, in the annotation of that field.

    Attributes:
        metavar: stands for the value; default: the type.
        text: what the field is, or what returns it when help is shown; default: the docstring below it.
        names: as they are typed, with blanks between; default: the field's name with hyphens.
        panel: of help; default: the panel of options.
        low, high: bounds of a number.
        positional: the value is an argument.
    """

    metavar: str | None = None
    text: str | Callable[[], str] = ""
    names: str = ""
    panel: str | None = None
    low: float | None = None
    high: float | None = None
    positional: bool = False


class Request(Model):
    """The settings of a job. Fields with a `Flag` are options of its command, described by their docstrings.

    `model_fields_set` holds the names of those that were given. Where the work needs more than was typed,
    such as what a file says, the record is called settings, and the request is made of it.
    """

    model_config = ConfigDict(use_attribute_docstrings=True)

    @classmethod
    def flag_names(cls, field: str) -> list[str]:
        """The names of a field's flag, the one for messages first; of an argument the field's own name."""
        flag = cls.model_fields[field].metadata[0]
        return flag.names.split() or [field if flag.positional else f"--{field.replace('_', '-')}"]


def argument(metavar: str) -> Flag:
    """The flag of a value that stands without a name on the command line."""
    return Flag(metavar, positional=True)


# Options that several commands have, so that they read the same everywhere.
WHERE = "Where it runs"
RunRoot = Annotated[Path, Flag("DIR", "Folder of the split and of all run folders.")]
RecipeName = Annotated[
    str | None, Flag("NAME_OR_FILE", "Preset or YAML file. (default: by the split's source)", "--recipe")
]
Overrides = Annotated[
    list[str],
    Flag(
        "KEY=VALUE",
        "Override a recipe key, such as optim.lr=0.05; a flag for the same key goes first. Repeatable.",
        "--set",
    ),
]
Plugins = Annotated[
    list[str],
    Flag(
        "FILE.py",
        "Python file with a method, criterion or network of your own; is run. Repeatable.",
        "--plugin",
    ),
]
Old = Annotated[str, Flag("RUN", "Old model: run name, run folder or .pt file.")]
Refs = Annotated[
    list[str],
    Flag("RUN", "Reference model, or an ensemble's folder; repeated, an ensemble. (default: ref)", "--ref"),
]
Overwrite = Annotated[bool, Flag(text="Throw away the run that is in the folder.")]
Device = Annotated[
    str | None,
    Flag("NAME", "Where models compute: auto, cpu, cuda or cuda:N. (default: the recipe's)"),
]
ModelDevice = Annotated[str, Flag("NAME", "Where models compute: auto, cpu, cuda or cuda:N.")]
RayAddress = Annotated[
    str | None,
    Flag("ADDRESS", "A Ray cluster that sees the same files. (default: this machine alone)", panel=WHERE),
]
DataRoot = Annotated[Path | None, Flag("DIR", "Folder of the data.")]
MovedData = Annotated[
    Path | None, Flag("DIR", "Where the split's pictures are now. (default: where split saw them)")
]
DryRun = Annotated[bool, Flag(text="Check everything, say what would be done, write nothing.")]
Json = Annotated[bool, Flag(text="Print one JSON object and nothing else.", names="--json")]
Log = Annotated[
    list[TrackerName],
    Flag("TRACKER", "Log recipe, curves and result to mlflow or wandb. Repeatable."),
]
LEVEL = Flag(
    text="Level of the two-sided interval of NFR whose upper end must keep --max-nfr. (default: 0.95)"
)
Confidence = Annotated[float | None, LEVEL]


class ModelRequest(Request):
    """Runs and pictures that a job reads, and the device of its models."""

    run_root: RunRoot = Path("runs")
    data_root: MovedData = None
    device: ModelDevice = "auto"

    @property
    def session(self) -> Session:
        """The same, as functions that read models take it."""
        return Session(self.run_root, self.device, data_root=self.data_root)


class RootRequest(Request):
    """The folder of runs that a job looks at."""

    run_root: RunRoot = Path("runs")
    as_json: Json = False
