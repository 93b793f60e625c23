"""The flag for old classes of two models' predictions: a file of labels, or all of them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from mptctl.evaluation.pairing.pairs import GivenClasses

OldClasses = Annotated[
    str | None,
    typer.Option(
        "--old-classes",
        metavar="FILE|all",
        help="Old class labels, one a line, or `all` for all labels; default: what OLD knows.",
    ),
]


def old_classes_file(given: str | None) -> Path | None:
    """The file that is named; None where there is none."""
    return None if given in (None, "all") else Path(str(given))


def read_old_classes(given: str | None) -> GivenClasses:
    """The labels that it names, or ``all``; None where nothing is given. Raises as `read_names`."""
    from mptctl.evaluation.pairing.pairs import ALL
    from mptctl.files import read_names

    file = old_classes_file(given)
    if file is not None:
        return read_names(file, "--old-classes")
    return None if given is None else ALL
