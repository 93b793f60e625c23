"""The keys of a recipe that say which network its weights are of, and how that network sees pictures."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from mptctl.recipe.fields import Recipe
from mptctl.recipe.reading import change_recipe, load_recipe

# Keys that must agree where a model begins with the weights of another one.
SAME_NETWORK = (
    "model.arch", "model.stem", "model.embedding_dim", "model.head", "model.head_scale", "data.image_size",
    "data.mean", "data.std",
)  # fmt: skip
SEEN_IN_EVALUATION = ("data.interpolation", "data.eval_resize", "data.eval_crop")


def with_network_of(recipe: Recipe, run_recipe: Path, said: Collection[str]) -> Recipe:
    """Take the network and the preparation of pictures from the recipe of the run that a model begins with.

    Args:
        recipe: of the model; stays as it is.
        run_recipe: the file of the run's recipe; where it is not there, nothing is taken.
        said: dotted keys, or groups such as ``model``, that stand as they are.

    Raises:
        UsageError: the file is no recipe, or what it says does not go with what was said.
    """
    if not run_recipe.is_file():
        return recipe
    theirs = load_recipe(str(run_recipe), of_run=True)
    keys = [key.partition(".") for key in (*SAME_NETWORK, *SEEN_IN_EVALUATION) if key not in said]
    taken = {
        f"{group}.{field}": getattr(getattr(theirs, group), field)
        for group, _, field in keys
        if group not in said
    }
    return change_recipe(recipe, taken, str(run_recipe))
