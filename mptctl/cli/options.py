"""Options that several commands share, so that they read the same everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from mptctl.errors import UsageError
from mptctl.names import Init, TrackerName

# The panel of help on where trainings run.
WHERE = "Where it runs"

RunRoot = Annotated[
    Path, typer.Option("--run-root", metavar="DIR", help="Folder of the split and of all run folders.")
]
RecipeName = Annotated[
    str | None,
    typer.Option(
        "--recipe", metavar="NAME_OR_FILE", help="Preset or YAML file. (default: by the split's source)"
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Override a recipe key, such as optim.lr=0.05. Repeatable."
    ),
]
Name = Annotated[
    str | None,
    typer.Option(
        "--name",
        metavar="RUN",
        help="Run folder below the run root. (default: the command's, such as old or mpt-kl)",
    ),
]
Old = Annotated[
    str, typer.Option("--old", metavar="RUN", help="Old model: run name, run folder or .pt file.")
]
Refs = Annotated[
    list[str] | None,
    typer.Option(
        "--ref",
        metavar="RUN",
        help="Reference model, or an ensemble's folder; repeated, an ensemble. (default: ref)",
    ),
]


def columns_by_role(columns: list[str] | None, roles: Sequence[str]) -> dict[str, str]:
    """The column names by role, from the values ``ROLE=NAME`` of ``--column``; empty where none is given.

    Raises:
        UsageError: a value has no name, or a role that is not one of ``roles``.
    """
    names = {}
    for word in columns or ():
        role, _, name = word.partition("=")
        if role not in roles or not name:
            raise UsageError(f"--column {word}: write ROLE=NAME, of the roles {', '.join(roles)}")
        names[role] = name
    return names


def max_nfr(text: str, panel: str | None = None) -> Any:
    """The option ``--max-nfr``, a budget of flips in percent; ``text`` is its help."""
    return typer.Option("--max-nfr", metavar="PCT", help=text, rich_help_panel=panel)


def confidence(panel: str | None = None) -> Any:
    """The option ``--confidence``, the interval level at which a budget of flips is kept."""
    return typer.Option(
        "--confidence",
        help="Level of the two-sided interval of NFR whose upper end must keep --max-nfr. (default: 0.95)",
        rich_help_panel=panel,
    )


Resume = Annotated[bool, typer.Option("--resume", help="Continue the run in the folder, by its own recipe.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Throw away the run that is in the folder.")]
Seed = Annotated[
    int | None,
    typer.Option(
        "--seed", metavar="N", help="Seed of weights, order and augmentation. (default: the recipe's)"
    ),
]
IndependentSeed = Annotated[
    int | None,
    typer.Option(
        "--seed",
        metavar="N",
        help="Seed of weights, order and augmentation. "
        "(default: the recipe's plus an offset, so that this model is independent of the update)",
    ),
]
Device = Annotated[
    str | None,
    typer.Option(
        "--device",
        metavar="NAME",
        help="Where models compute: auto, cpu, cuda or cuda:N. (default: the recipe's)",
    ),
]
ModelDevice = Annotated[
    str, typer.Option("--device", metavar="NAME", help="Where models compute: auto, cpu, cuda or cuda:N.")
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        "--ray-address",
        metavar="ADDRESS",
        help="A Ray cluster that sees the same files. (default: this machine alone)",
        rich_help_panel=WHERE,
    ),
]
DataRoot = Annotated[Path | None, typer.Option("--data-root", metavar="DIR", help="Folder of the data.")]
MovedData = Annotated[
    Path | None,
    typer.Option(
        "--data-root",
        metavar="DIR",
        help="Where the split's pictures are now. (default: where split saw them)",
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Check everything, say what would be done, write nothing.")
]
PrintRecipe = Annotated[
    bool, typer.Option("--print-recipe", help="Print the complete recipe as YAML and end.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else.")]
InitWeights = Annotated[
    Init | None,
    typer.Option(
        "--init",
        help="Begin with fresh weights, the old model's, or the reference's. (default: the recipe's)",
    ),
]
CacheTeachers = Annotated[
    bool, typer.Option("--cache-teachers", help="Keep teacher logits on disk and share them between runs.")
]
Log = Annotated[
    list[TrackerName] | None,
    typer.Option(
        "--log",
        metavar="TRACKER",
        help="Log recipe, curves and result to mlflow, wandb or tensorboard. Repeatable.",
    ),
]
