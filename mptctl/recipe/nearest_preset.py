"""Which preset a recipe is most like, and the keys in which it differs: a recipe that was trained has no name."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from mptctl.recipe.fields import Recipe
from mptctl.recipe.reading import load_recipe, preset_names
from mptctl.recipe.validation import differences


class NearestPreset(NamedTuple):
    """A preset, and what a recipe changes of it.

    Attributes:
        name: of the preset.
        changes: dotted key, the recipe's value, the preset's value.
    """

    name: str
    changes: list[tuple[str, Any, Any]]


@cache
def _presets() -> dict[str, Recipe]:
    return {name: load_recipe(name) for name in preset_names()}


def nearest_preset(recipe: Recipe) -> NearestPreset:
    """The preset with the fewest keys of another value; of several the first by name."""
    found = (NearestPreset(name, differences(recipe, preset)) for name, preset in _presets().items())
    return min(found, key=lambda preset: len(preset.changes))
