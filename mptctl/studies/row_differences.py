"""Differences of rows of a comparison: over the seeds that both have, each with its interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from mptctl.errors import UsageError
from mptctl.evaluation.paired_bootstrap import FloatArray, interval, observed, redraw
from mptctl.files.explained import nearest
from mptctl.studies.comparison import COLUMNS, Column, Difference
from mptctl.studies.groups import Group


class RedrawnRates(NamedTuple):
    """Rates of one update, as they are and on samples that are drawn again."""

    observed: Mapping[str, float]
    draws: Mapping[str, FloatArray]


# By split and seed.
RedrawnGroup = Mapping[tuple[str, int], RedrawnRates]


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


def redraw_groups(groups: Sequence[Group]) -> list[RedrawnGroup]:
    """Rates of the rows of one section, as they are and on samples that are drawn again, the same for all rows."""
    updates = [update for group in groups for update in group.updates]
    draws = iter(redraw([update.counted for update in updates]))
    return [
        {update.replicate: RedrawnRates(observed(update.counted), next(draws)) for update in group.updates}
        for group in groups
    ]


def difference_to(one: RedrawnGroup, other: RedrawnGroup) -> dict[Column, Difference] | None:
    """By rate, what one group has more than another; None where they have no seed in common."""
    shared = [replicate for replicate in one if replicate in other]
    if not shared:
        return None
    return {column: _difference([(one[each], other[each]) for each in shared], column) for column in COLUMNS}


def is_noise(difference: Difference) -> bool:
    """Whether the interval of a difference contains zero, or there is none."""
    return difference.low is None or difference.high is None or difference.low <= 0 <= difference.high


def _difference(pairs: Sequence[tuple[RedrawnRates, RedrawnRates]], column: Column) -> Difference:
    values = [one.observed[column] - other.observed[column] for one, other in pairs]
    draws = np.mean([one.draws[column] - other.draws[column] for one, other in pairs], axis=0)
    mean = float(np.mean(values))
    low, high = interval(values, draws) or (None, None)
    return Difference(mean=mean if math.isfinite(mean) else None, low=low, high=high, seeds=len(pairs))
