"""The recipe of a run: frozen, validated, and made of a preset, a file and overrides."""

from mptctl.recipe.criterion import CriterionRecipe
from mptctl.recipe.data import ROUNDING, SPEED, TRAINING, DataRecipe
from mptctl.recipe.fields import MethodRecipe, ModelRecipe, Recipe, RuntimeRecipe
from mptctl.recipe.optim import OptimRecipe
from mptctl.recipe.reading import (
    DEFAULT_PRESET,
    NearestPreset,
    change_recipe,
    describe_missing_keys,
    load_recipe,
    nearest_preset,
    preset_names,
)
from mptctl.recipe.validation import (
    batch_differences,
    differences,
    keys_called,
    keys_of,
    may_change_between_starts,
    recipe_keys,
    validate_criterion,
    validate_method,
    validate_recipe,
)

__all__ = [
    "DEFAULT_PRESET",
    "ROUNDING",
    "SPEED",
    "TRAINING",
    "CriterionRecipe",
    "DataRecipe",
    "MethodRecipe",
    "ModelRecipe",
    "NearestPreset",
    "OptimRecipe",
    "Recipe",
    "RuntimeRecipe",
    "batch_differences",
    "change_recipe",
    "describe_missing_keys",
    "differences",
    "keys_called",
    "keys_of",
    "load_recipe",
    "may_change_between_starts",
    "nearest_preset",
    "preset_names",
    "recipe_keys",
    "validate_criterion",
    "validate_method",
    "validate_recipe",
]
