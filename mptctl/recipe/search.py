"""The axes of a search, keys of a recipe by values or a range, and points on them with their names."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Sequence

from pydantic import Field

from mptctl.errors import UsageError
from mptctl.files import Model
from mptctl.files.explained import nearest
from mptctl.files.model import Plain, is_whole
from mptctl.recipe.fields import Recipe
from mptctl.recipe.reading import change_recipe
from mptctl.recipe.validation import recipe_keys

Value = float | str
TrialSettings = dict[str, Value]
# Keys that each trial has in common with the others, or that the command decides.
DECIDED = ("method.name", "runtime.seed", "runtime.device")


class Axis(Model):
    """A setting that is searched: either values, or a range."""

    name: str = Field(description="a key of the recipe")
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


def parse_key_axis(word: str, flag: str = "") -> Axis:
    """Read ``KEY=a,b,c`` (values) or ``KEY=LOW..HIGH``, with ``:log`` to be searched by factors.

    Args:
        word: KEY is any key of the recipe.
        flag: with its value, as errors name it; default: --search with the word.

    Raises:
        UsageError: there is no such key, the command decides it, or the text is neither.
    """
    key, _, text = word.partition("=")
    flag = flag or f"--search {word}"
    keys = recipe_keys()
    if key not in keys or key in DECIDED:
        names = [name for name in keys if name not in DECIDED]
        raise UsageError(f"{flag}: no key of the recipe that can be searched{nearest(key, names)}")
    found = re.fullmatch(r"(?P<low>.+?)\.\.(?P<high>.+?)(?P<log>:log)?", text)
    if found is None:
        parsed = (_number_or_text(part.strip()) for part in text.split(","))
        values = tuple({_text(value): value for value in parsed}.values())  # names of trials differ
        if "" in values:
            raise UsageError(f"{flag}: write KEY=a,b,c or KEY=LOW..HIGH, such as method.lam=0.1..10:log")
        return Axis(name=key, values=values)
    try:
        low, high = float(found["low"]), float(found["high"])
    except ValueError:
        low = high = math.nan
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise UsageError(f"{flag}: a range is LOW..HIGH with LOW below HIGH, such as 0.1..10 or 0.1..10:log")
    if is_whole(keys[key].annotation):
        raise UsageError(f"{flag}: is a whole number; name its values, such as {key}=1,2,4")
    if found["log"] and low <= 0:
        raise UsageError(f"{flag}: must be positive, since it is searched by factors")
    return Axis(name=key, range=(low, high), log=found["log"] is not None)


def _number_or_text(text: str) -> Value:
    """A value as a number where it is one."""
    try:
        return float(text)
    except ValueError:
        return text


def random_points(axes: Sequence[Axis], trials: int, seed: int) -> list[TrialSettings]:
    """Draw points of different names at random; fewer than ``trials`` where 100 draws a trial give no more.

    With the same seed, more trials begin with the same points.
    """
    chance = random.Random(seed)  # noqa: S311  # a search has no secrets
    points: dict[str, TrialSettings] = {}
    for _ in range(100 * trials):
        point = {axis.name: axis.sample(chance) for axis in axes}
        points.setdefault(name_of(point), point)
        if len(points) == trials:
            break
    return list(points.values())


def recipe_at(base: Recipe, point: TrialSettings) -> Recipe:
    """The recipe of a trial: the common one with other values of some keys.

    Raises:
        UsageError: a value is not valid.
    """
    fixed = {key: Plain(value) if isinstance(value, str) else value for key, value in point.items()}
    return change_recipe(base, fixed, f"of trial {name_of(point)}")


def name_of(settings: TrialSettings) -> str:
    """The name of a trial and of its folder, such as ``mpt-kl-k1.5`` or ``pct-kl-lam0.5-lr0.05``."""
    short = [name.rpartition(".")[2] for name in settings]
    names = short if len(set(short)) == len(short) else list(settings)
    parts = [
        str(value) if key == "method.name" else f"{name}{_text(value)}"
        for key, name, value in zip(settings, names, settings.values(), strict=True)
    ]
    return "-".join(parts) or "trial"


def rounded(value: float) -> float:
    """Round to three digits, so that names of trials are readable; no search needs a finer value."""
    return float(f"{value:.3g}")


def _text(value: Value) -> str:
    """A value as it stands in names of trials."""
    return re.sub(r"[^\w.+]+", "_", value) if isinstance(value, str) else f"{value:g}"
