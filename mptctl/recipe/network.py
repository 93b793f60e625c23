"""Copies the keys for network and pictures from the recipe of the run whose weights a model begins with."""

from __future__ import annotations

from collections.abc import Collection
from operator import attrgetter
from pathlib import Path

from mptctl.recipe.fields import Recipe
from mptctl.recipe.reading import change_recipe, load_recipe

# Keys that must be equal if a model begins with the weights of another model.
SAME_NETWORK = (
    "model.arch", "model.stem", "model.embedding_dim", "model.head", "model.head_scale", "model.settings",
    "data.image_size", "data.mean", "data.std",
)  # fmt: skip
# Keys of the preparation of pictures that may differ, but are copied too.
PREPARATION = ("data.interpolation", "data.eval_resize", "data.exif")


def copy_network_keys(recipe: Recipe, run_recipe: Path, kept: Collection[str]) -> Recipe:
    """Return a recipe with the network and preparation of pictures of the run that the model begins with.

    Args:
        recipe: the model's recipe; not changed.
        run_recipe: ``recipe.yaml`` of the run; if there is no such file, ``recipe`` is returned.
        kept: dotted keys, or groups such as ``model``, that are not copied.

    Raises:
        UsageError: the file is no recipe, or its values conflict with the kept ones.
    """
    if not run_recipe.is_file():
        return recipe
    source = load_recipe(str(run_recipe), of_run=True)
    copied = {
        key: attrgetter(key)(source)
        for key in (*SAME_NETWORK, *PREPARATION)
        if key not in kept and key.partition(".")[0] not in kept
    }
    return change_recipe(recipe, copied, str(run_recipe))
