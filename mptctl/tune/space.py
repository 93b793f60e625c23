"""The space of a search: axes from flags, settings of trials, and the recipe of given settings."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Sequence

from pydantic import Field

from mptctl.errors import UsageError
from mptctl.files import Model
from mptctl.methods.rows import distance_of, mpt_method
from mptctl.names import Search as Search
from mptctl.recipe import Recipe, validate_recipe

Value = float | str
TrialSettings = dict[str, Value]

# Axis -> key of the recipe. The order is that of flags, names and tables.
KEYS = {
    "distance": "method.name",
    "k": "method.k",
    "lam": "method.lam",
    "alpha": "method.alpha",
    "beta": "method.beta",
    "tau": "method.tau",
    "lr": "optim.lr",
}
# Around the paper's best values, 1.5 (ImageNet) and 4 (CIFAR-100), with 0 for no bias at all.
DEFAULT_K = {"grid": "0,0.5,1,1.5,2,4,8", "random": "0:8", "optuna": "0:8"}


class Axis(Model):
    """A setting that is searched: either values, or a range."""

    name: str = Field(description="distance, k, lam, alpha, beta, tau or lr")
    values: tuple[Value, ...] = Field((), description="values to try")
    range: tuple[float, float] | None = Field(None, description="lowest and highest value, or null")

    @property
    def logarithmic(self) -> bool:
        """Tells whether values are drawn evenly on a logarithmic scale."""
        return self.name == "lr"

    def sample(self, chance: random.Random) -> Value:
        """Draw one of the values, or a rounded number of the range."""
        if self.range is None:
            return chance.choice(self.values)
        low, high = self.range
        if self.logarithmic:
            return rounded(math.exp(chance.uniform(math.log(low), math.log(high))))
        return rounded(chance.uniform(low, high))


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
    separator = ":" if ":" in text else ","
    try:
        numbers = tuple(dict.fromkeys(float(part) for part in text.split(separator)))
    except ValueError:
        raise UsageError(f"{flag}: write values as 0,0.5,1 or a range as 0:8") from None
    if not all(math.isfinite(number) for number in numbers):
        raise UsageError(f"{flag}: holds a number that is not finite; write values as 0,0.5,1")
    if separator == ",":
        return Axis(name=name, values=numbers)
    if search == "grid":
        raise UsageError(
            f"{flag}: a grid needs values, such as 0,0.5,1; ranges are for --search random or optuna"
        )
    if len(numbers) != 2 or numbers[0] >= numbers[1]:
        raise UsageError(f"{flag}: a range is LOW:HIGH with LOW below HIGH, such as 0:8")
    axis = Axis(name=name, range=(numbers[0], numbers[1]))
    if axis.logarithmic and numbers[0] <= 0:
        raise UsageError(f"{flag}: must be positive, since it is searched by factors")
    return axis


def grid(axes: Sequence[Axis]) -> list[TrialSettings]:
    """Every combination of the values, the last axis fastest."""
    names = [axis.name for axis in axes]
    combinations = itertools.product(*(axis.values for axis in axes))
    return [dict(zip(names, values, strict=True)) for values in combinations]


def random_points(axes: Sequence[Axis], trials: int, seed: int) -> list[TrialSettings]:
    """Draw different points at random; fewer than ``trials`` where 100 draws a trial give no more.

    With the same seed, more trials begin with the same points.
    """
    chance, points = random.Random(seed), []  # noqa: S311  # a search has no secrets
    for _ in range(100 * trials):
        point = {axis.name: axis.sample(chance) for axis in axes}
        if point not in points:
            points.append(point)
        if len(points) == trials:
            break
    return points


def complete_settings(base: Recipe, point: TrialSettings) -> TrialSettings:
    """The settings of a trial, in the order of `KEYS`; distance and k are the recipe's unless searched."""
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
    content = base.model_dump()
    for name, value in settings.items():
        group, key = KEYS[name].split(".")
        # Of the values only a distance is text.
        content[group][key] = mpt_method(value) if name == "distance" else value  # type: ignore[arg-type]
    return validate_recipe(content, f"of trial {name_of(settings)}")


def name_of(settings: TrialSettings) -> str:
    """The name of a trial and of its folder, such as ``kl-k1.5`` or ``lm-k4-lr0.05``."""
    parts = [f"{'' if name == 'distance' else name}{_text(value)}" for name, value in settings.items()]
    return "-".join(parts)


def rounded(value: float) -> float:
    """Round to three digits, so that names of trials are readable; no search needs a finer value."""
    return float(f"{value:.3g}")


def series_key(settings: TrialSettings) -> tuple[tuple[str, Value], ...]:
    """All settings but k, which the trials of a series share; see `mptctl.tune.choice.check_series`."""
    return tuple((name, value) for name, value in settings.items() if name != "k")


def _text(value: Value) -> str:
    """A value as it stands in names of trials."""
    return value if isinstance(value, str) else f"{value:g}"
