"""The keys of a recipe that say which network its weights are of, and how that network sees pictures."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from mptctl.recipe.fields import Recipe

# Keys that must agree where a model begins with the weights of another one.
SAME_NETWORK = (
    "model.arch", "model.stem", "model.embedding_dim", "model.head", "model.head_scale", "data.image_size",
    "data.mean", "data.std",
)  # fmt: skip
SEEN_IN_EVALUATION = ("data.interpolation", "data.eval_resize", "data.eval_crop")


def network_keys(recipe: Recipe, but: Collection[str] = ()) -> dict[str, Any]:
    """The values of these keys in a recipe, by dotted key.

    Args:
        recipe: of the model that another one begins with.
        but: keys, or groups such as ``model``, that are decided elsewhere.

    >>> network_keys(Recipe(), but=("model", "data.mean", "data.std"))["data.image_size"]
    32
    """
    keys = [key.partition(".") for key in (*SAME_NETWORK, *SEEN_IN_EVALUATION) if key not in but]
    return {
        f"{group}.{field}": getattr(getattr(recipe, group), field)
        for group, _, field in keys
        if group not in but
    }
