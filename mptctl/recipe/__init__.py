"""The recipe of a run: a frozen, validated record, made from a preset, a file and overrides."""

from mptctl.recipe.criterion import CriterionRecipe
from mptctl.recipe.data import ROUNDING, SPEED, TRAINING, DataRecipe
from mptctl.recipe.fields import MethodRecipe, ModelRecipe, Recipe, RuntimeRecipe
from mptctl.recipe.optim import OptimRecipe
from mptctl.recipe.reading import (
    DEFAULT_PRESET,
    change_recipe,
    load_recipe,
    preset_names,
)
from mptctl.recipe.validation import (
    differences,
    find_keys_by_name,
    list_changeable_keys,
    list_marked_data_keys,
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
    "OptimRecipe",
    "Recipe",
    "RuntimeRecipe",
    "change_recipe",
    "differences",
    "find_keys_by_name",
    "list_changeable_keys",
    "list_marked_data_keys",
    "load_recipe",
    "preset_names",
    "recipe_keys",
    "validate_criterion",
    "validate_method",
    "validate_recipe",
]
