"""The space of a search: the axes of MPT's own flags, the points of a grid, and series of k."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import get_args

from mptctl.errors import UsageError
from mptctl.methods.rows import mpt_method
from mptctl.names import Distance
from mptctl.recipe import Recipe
from mptctl.recipe.search import Axis, TrialSettings, Value, parse_key_axis

METHOD, K = "method.name", "method.k"
# Around the paper's best values, 1.5 (ImageNet) and 4 (CIFAR-100), with 0 for no bias at all.
DEFAULT_K = {"grid": "0,0.5,1,1.5,2,4,8", "random": "0..8", "optuna": "0..8"}


def mpt_axes(k: str, distance: str | None) -> tuple[Axis, ...]:
    """Read --k and --distance: the axes of a search of MPT.

    Args:
        k: values, or a range, as `parse_key_axis` reads them.
        distance: ``kl``, ``lm`` or both; None: not searched. Repeated values count once.

    Raises:
        UsageError: one of them is neither.
    """
    axis = parse_key_axis(f"{K}={k}", f"--k {k}")
    if any(isinstance(value, str) for value in axis.values):
        raise UsageError(f"--k {k}: write numbers as 0,0.5,1, or a range as 0..8")
    if distance is None:
        return (axis,)
    given = {part.strip() for part in distance.split(",")}
    if not given <= set(get_args(Distance)):
        raise UsageError(f"--distance {distance}: must be kl, lm, or both as kl,lm")
    methods = tuple(mpt_method(each) for each in get_args(Distance) if each in given)
    return Axis(name=METHOD, values=methods), axis


def grid(axes: Sequence[Axis]) -> list[TrialSettings]:
    """Every combination of the values, the last axis fastest."""
    names = [axis.name for axis in axes]
    combinations = itertools.product(*(axis.values for axis in axes))
    return [dict(zip(names, values, strict=True)) for values in combinations]


def complete_settings(base: Recipe, point: TrialSettings) -> TrialSettings:
    """The settings of a trial: its method, the recipe's unless searched, and then the point."""
    return {METHOD: base.method.name, **point}


def series_key(settings: TrialSettings) -> tuple[tuple[str, Value], ...]:
    """All settings but k, which the trials of a series share; see `mptctl.tune.choice.check_series`."""
    return tuple((name, value) for name, value in settings.items() if name != K)
