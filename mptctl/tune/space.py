"""The space of a search: axes from flags, settings of trials, and the recipe of given settings."""

from __future__ import annotations

import itertools
import math
import random
import re
from collections.abc import Sequence

from pydantic import Field

from mptctl.errors import UsageError
from mptctl.files import Model
from mptctl.files.explained import nearest
from mptctl.files.model import Plain
from mptctl.methods.rows import distance_of, mpt_method
from mptctl.names import Search as Search
from mptctl.recipe import Recipe, change_recipe, recipe_keys

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
# Keys that each trial has in common with the others, or that the command decides.
DECIDED = ("method.name", "runtime.seed", "runtime.device")
# Around the paper's best values, 1.5 (ImageNet) and 4 (CIFAR-100), with 0 for no bias at all.
DEFAULT_K = {"grid": "0,0.5,1,1.5,2,4,8", "random": "0:8", "optuna": "0:8"}


class Axis(Model):
    """A setting that is searched: either values, or a range."""

    name: str = Field(description="distance, k, lam, alpha, beta, tau or lr; or a key of the recipe")
    values: tuple[Value, ...] = Field((), description="values to try")
    range: tuple[float, float] | None = Field(None, description="lowest and highest value, or null")
    log: bool = Field(False, description="whether the range is searched by factors")

    def sample(self, chance: random.Random) -> Value:
        """Draw one of the values, or a rounded number of the range."""
        if self.range is None:
            return chance.choice(self.values)
        low, high = self.range
        if self.log:
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
    return _range_axis(name, numbers[0], numbers[1], log=name == "lr", flag=flag)


def _range_axis(name: str, low: float, high: float, *, log: bool, flag: str) -> Axis:
    """The axis of a range; UsageError where it is searched by factors and not positive."""
    if log and low <= 0:
        raise UsageError(f"{flag}: must be positive, since it is searched by factors")
    return Axis(name=name, range=(low, high), log=log)


def parse_key_axis(word: str) -> Axis:
    """Read ``KEY=a,b,c`` (values), or ``KEY=LOW..HIGH`` with ``:log`` for a range that is searched by factors.

    Args:
        word: the flag's value; KEY is any key of the recipe.

    Raises:
        UsageError: there is no such key, the command decides it, or the text is neither.
    """
    key, _, text = word.partition("=")
    flag = f"--search {word}"
    keys = recipe_keys()
    if key not in keys or key in DECIDED:
        names = [name for name in keys if name not in DECIDED]
        raise UsageError(f"{flag}: no key of the recipe that can be searched{nearest(key, names)}")
    found = re.fullmatch(r"(?P<low>.+?)\.\.(?P<high>.+?)(?P<log>:log)?", text)
    if found is None:
        values = tuple(dict.fromkeys(_number_or_text(part.strip()) for part in text.split(",")))
        if "" in values:
            raise UsageError(f"{flag}: write KEY=a,b,c or KEY=LOW..HIGH, such as method.lam=0.1..10:log")
        return Axis(name=key, values=values)
    try:
        low, high = float(found["low"]), float(found["high"])
    except ValueError:
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UsageError(f"{flag}: a range is LOW..HIGH with LOW below HIGH, such as 0.1..10 or 0.1..10:log")
    if keys[key].annotation is int:
        raise UsageError(f"{flag}: is a whole number; name its values, such as {key}=1,2,4")
    return _range_axis(key, low, high, log=found["log"] is not None, flag=flag)


def _number_or_text(text: str) -> Value:
    """A value as a number where it is one."""
    try:
        return float(text)
    except ValueError:
        return text


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
    """The settings of a trial: the point itself, or in a search of MPT by its own flags, in the order of `KEYS`.

    There distance and k are the recipe's unless searched.
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
    fixed = {
        KEYS.get(name, name): mpt_method(value)  # type: ignore[arg-type]  # kl or lm
        if name == "distance"
        else Plain(value)
        if isinstance(value, str)
        else value
        for name, value in settings.items()
    }
    return change_recipe(base, fixed, f"of trial {name_of(settings)}")


def name_of(settings: TrialSettings) -> str:
    """The name of a trial and of its folder, such as ``kl-k1.5``, ``lm-k4-lr0.05`` or ``weight0.5``."""
    short = [name.rpartition(".")[2] for name in settings]
    names = short if len(set(short)) == len(short) else list(settings)
    parts = [
        f"{'' if name == 'distance' else name}{_text(value)}"
        for name, value in zip(names, settings.values(), strict=True)
    ]
    return "-".join(parts) or "trial"


def rounded(value: float) -> float:
    """Round to three digits, so that names of trials are readable; no search needs a finer value."""
    return float(f"{value:.3g}")


def series_key(settings: TrialSettings) -> tuple[tuple[str, Value], ...]:
    """All settings but k, which the trials of a series share; see `mptctl.tune.choice.check_series`."""
    return tuple((name, value) for name, value in settings.items() if name not in ("k", KEYS["k"]))


def k_of(settings: TrialSettings) -> float:
    """The k of a trial; 0 where k is not searched."""
    return float(settings.get("k", settings.get(KEYS["k"], 0.0)))


def _text(value: Value) -> str:
    """A value as it stands in names of trials."""
    return re.sub(r"[^\w.+]+", "_", value) if isinstance(value, str) else f"{value:g}"
