"""Flags of slices: which parts of the test set are told apart."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

if TYPE_CHECKING:
    from mptctl.evaluation.reading.predictions import Predictions

PANEL = "Slices"
COMPARED = "What is compared"

By = Annotated[
    list[str] | None,
    typer.Option(
        "--by",
        metavar="COLUMN",
        help="Flips by a column of --metadata, OLD or NEW; by class; by superclass; by confidence of OLD; by size "
        "of a run's pictures; a,b crosses two. Repeatable.",
    ),
]
Metadata = Annotated[
    Path | None,
    typer.Option(
        "--metadata",
        metavar="FILE",
        help="Columns of the samples by `id`, in a form that predictions have.",
        rich_help_panel=PANEL,
    ),
]
Superclasses = Annotated[
    Path | None,
    typer.Option(
        "--superclasses",
        metavar="FILE",
        help="Superclass of each class, for --by superclass: .yaml (class: superclass) or .csv (columns class, "
        "superclass).",
        rich_help_panel=PANEL,
    ),
]
ClassMapFile = Annotated[
    Path | None,
    typer.Option(
        "--class-map",
        metavar="FILE",
        help="Classes renamed, merged or split from OLD to NEW: .yaml (old: new) or .csv (columns old, new).",
        rich_help_panel=COMPARED,
    ),
]
Weight = Annotated[
    str | None,
    typer.Option(
        "--weight",
        metavar="COLUMN",
        help="Column with the weight of each sample's flip: weighted rates beside the plain ones.",
        rich_help_panel=PANEL,
    ),
]
MinSlice = Annotated[
    int,
    typer.Option(
        "--min-slice",
        metavar="N",
        min=1,
        help="Smaller slices are counted, not ranked.",
        rich_help_panel=PANEL,
    ),
]
Fdr = Annotated[
    Literal["bh", "by"],
    typer.Option(
        "--fdr",
        help="Control of false discoveries: bh (Benjamini and Hochberg), or by (Benjamini and Yekutieli), valid under "
        "any dependence.",
        rich_help_panel=PANEL,
    ),
]


def columns(by: list[str] | None) -> list[tuple[str, ...]]:
    """What --by names: columns, or crossings of them.

    Raises:
        UsageError: an empty name, or a column that is crossed with itself.
    """
    from mptctl.errors import UsageError

    keys = [tuple(name.strip() for name in each.split(",")) for each in by or []]
    for key in keys:
        if not all(key) or len(set(key)) < len(key):
            raise UsageError(f"--by {','.join(key)}: name columns, each once, such as --by country,device")
    return keys


def files(models: Mapping[str, Predictions], metadata: Path | None) -> list[Path]:
    """Where columns of the samples are looked for, in this order: --metadata, then the files of OLD and NEW."""
    read = [Path(models[role].name) for role in ("old", "new") if models[role].origin == "file"]
    return [metadata, *read] if metadata is not None else read
