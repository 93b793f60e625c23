"""The space of a search: axes from flags, settings of trials, and the recipe of given settings."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

from mptctl.errors import UsageError
from mptctl.methods.rows import distance_of, mpt_method
from mptctl.names import Search as Search
from mptctl.recipe import Recipe
from mptctl.recipe.search import Axis, TrialSettings, Value, parse_key_axis, recipe_at, rounded

# Axis -> key of the recipe. The order is that of flags, names and tables.
KEYS = {
    "distance": "method.name",
    "k": "method.k",
}
# Around the paper's best values, 1.5 (ImageNet) and 4 (CIFAR-100), with 0 for no bias at all.
DEFAULT_K = {"grid": "0,0.5,1,1.5,2,4,8", "random": "0:8", "optuna": "0:8"}


def parse_axis(name: str, text: str, search: Search) -> Axis:
    """Read a flag's value: ``0,0.5,1`` (values), or ``0:8`` (a range, not for a grid).

    For the distance: ``kl``, ``lm`` or both. Repeated values count once.

    Args:
        name: of the axis.
        text: the flag's value.
        search: grid, random or optuna.

    Raises:
        UsageError: the text is neither, or it is a range and the search a grid.
    """
    flag = f"--{name} {text}"
    if name == "distance":
        names = tuple(dict.fromkeys(part.strip() for part in text.split(",")))
        if not names or any(part not in ("kl", "lm") for part in names):
            raise UsageError(f"{flag}: must be kl, lm, or both as kl,lm")
        return Axis(name=name, values=names)
    low, is_range, high = text.partition(":")
    try:
        axis = parse_key_axis(f"{KEYS[name]}={low}..{high}" if is_range else f"{KEYS[name]}={text}")
        numbers = [float(value) for value in axis.values]
    except (UsageError, ValueError):
        numbers = [math.nan]
    if not all(map(math.isfinite, numbers)):
        raise UsageError(f"{flag}: write finite numbers as 0,0.5,1, or a range as 0:8, the smaller first")
    if is_range and search == "grid":
        raise UsageError(
            f"{flag}: a grid needs values, such as 0,0.5,1; ranges are for --sampler random or optuna"
        )
    return axis.model_copy(update={"name": name})


def grid(axes: Sequence[Axis]) -> list[TrialSettings]:
    """Every combination of the values, the last axis fastest."""
    names = [axis.name for axis in axes]
    combinations = itertools.product(*(axis.values for axis in axes))
    return [dict(zip(names, values, strict=True)) for values in combinations]


def complete_settings(base: Recipe, point: TrialSettings) -> TrialSettings:
    """The settings of a trial: the point itself or, in a search of MPT by its own flags, completed.

    Then they are in the order of `KEYS`, and distance and k are the recipe's unless searched.
    """
    if base.method.name not in (mpt_method("kl"), mpt_method("lm")) or not point.keys() <= KEYS.keys():
        return point
    settings: TrialSettings = {"distance": distance_of(base.method.name) or "kl", "k": base.method.k, **point}
    return {name: settings[name] for name in KEYS if name in settings}


def rounded_point(point: TrialSettings) -> TrialSettings:
    """A point that Optuna proposed, with its numbers rounded as `rounded` does."""
    return {name: value if isinstance(value, str) else rounded(value) for name, value in point.items()}


def recipe_of(base: Recipe, settings: TrialSettings) -> Recipe:
    """The recipe of a trial: the common one with the settings of the trial.

    Raises:
        UsageError: a setting is not valid.
    """
    return recipe_at(
        base,
        {
            KEYS.get(name, name): mpt_method(value) if name == "distance" else value  # type: ignore[arg-type]
            for name, value in settings.items()
        },
    )


def series_key(settings: TrialSettings) -> tuple[tuple[str, Value], ...]:
    """All settings but k, which the trials of a series share; see `mptctl.tune.choice.check_series`."""
    return tuple((name, value) for name, value in settings.items() if name not in ("k", KEYS["k"]))


def k_of(settings: TrialSettings) -> float:
    """The k of a trial; 0 where k is not searched."""
    return float(settings.get("k", settings.get(KEYS["k"], 0.0)))
