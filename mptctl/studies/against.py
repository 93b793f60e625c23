"""Differences to one row of a comparison: over the seeds that both have, each with the interval of its noise."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mptctl.errors import UsageError
from mptctl.evaluation.paired_bootstrap import (
    FloatArray,
    IntArray,
    differences,
    interval,
    joint_cells,
    observed,
)
from mptctl.recipe.validation import nearest
from mptctl.studies.comparison import COLUMNS, Column, Difference
from mptctl.studies.groups import Group


def refuse_unknown_row(flag: str, name: str, names: Sequence[str]) -> None:
    """Refuse a name that no row has.

    Raises:
        UsageError: names the nearest one.
    """
    if name not in names:
        raise UsageError(f"{flag} {name}: no such row{nearest(name, names)}")


def row_of_name(flag: str, groups: Sequence[Group], name: str) -> Group | None:
    """The row of a section that has a name; None where the section has no such row.

    Args:
        flag: that named it.
        groups: of one section of the table.
        name: of the row.

    Raises:
        UsageError: several rows have that name.
    """
    named = [group for group in groups if group.name == name]
    if len(named) > 1:
        folders = ", ".join(str(group.updates[0].run.folder) for group in named)
        raise UsageError(
            f"{flag} {name}: {len(named)} rows of other settings have that name ({folders}); name folders "
            "that hold one of them"
        )
    return named[0] if named else None


def draws_of_difference(one: Group, other: Group) -> dict[str, FloatArray] | None:
    """Bootstrap of the difference over the seeds that two groups have in common; None where there is none."""
    cells = _cells(one, other)
    return differences(cells) if cells else None


def difference_to(one: Group, other: Group) -> dict[Column, Difference] | None:
    """By rate, what one group has more than another; None where they have no seed in common."""
    cells = _cells(one, other)
    if not cells:
        return None
    means, draws = observed(cells), differences(cells)
    found: dict[Column, Difference] = {}
    for column in COLUMNS:
        low, high = interval(draws[column]) or (None, None)
        mean = means[column] if math.isfinite(means[column]) else None
        found[column] = Difference(mean=mean, low=low, high=high)
    return found


def _cells(one: Group, other: Group) -> list[IntArray]:
    theirs = {update.replicate: update for update in other.updates}
    return [
        joint_cells(u.of_old, u.old_right, u.right, theirs[u.replicate].right)
        for u in one.updates
        if u.replicate in theirs
    ]
