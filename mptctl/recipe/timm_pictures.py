"""How a network of timm sees pictures, by its config: keys of a recipe's group `data`."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, get_args

from mptctl.recipe.data import DataRecipe, Interpolation

if TYPE_CHECKING:
    from mptctl.recipe.fields import Recipe

_TIMM = "timm:"


def picture_keys(config: Mapping[str, Any]) -> dict[str, Any]:
    """Keys of the group `data` that a `pretrained_cfg` of timm decides: mean, std, interpolation, eval_crop.

    An interpolation that there is not here, such as lanczos, is left out.

    Raises:
        TypeError, ValueError: a value of the config is none.

    >>> picture_keys({"mean": (0.5, 0.5, 0.5), "crop_pct": 0.9, "interpolation": "bicubic"})
    {'mean': [0.5, 0.5, 0.5], 'interpolation': 'bicubic', 'eval_crop': 0.9}
    """
    keys: dict[str, Any] = {
        key: [float(value) for value in config[key]] for key in ("mean", "std") if config.get(key)
    }
    if config.get("interpolation") in get_args(Interpolation):
        keys["interpolation"] = config["interpolation"]
    if config.get("crop_pct"):
        keys["eval_crop"] = float(config["crop_pct"])
    return keys


@cache
def keys_of_network(arch: str) -> dict[str, Any]:
    """The same of an architecture by its name; none where it is not timm's, or timm is not installed."""
    if not arch.startswith(_TIMM) or find_spec("timm") is None:
        return {}
    import timm

    config = timm.get_pretrained_cfg(arch.removeprefix(_TIMM), allow_unregistered=True)
    return picture_keys(config.to_dict()) if config is not None else {}


def network_notes(recipe: Recipe) -> list[str]:
    """Say what of a recipe's pictures is the network's, and what is not; nothing without a config."""
    known = keys_of_network(recipe.model.arch)
    if not known:
        return []
    theirs = DataRecipe.model_validate(known)
    taken = [key for key in known if getattr(recipe.data, key) == getattr(theirs, key)]
    others = [f"data.{key} ({_shown(getattr(theirs, key))} there)" for key in known if key not in taken]
    said = f"pictures as the config of {recipe.model.arch} has them: {', '.join(taken) or 'nothing'}"
    return [f"{said}; not {', '.join(others)}" if others else said]


def _shown(value: object) -> str:
    return " ".join(f"{each:g}" for each in value) if isinstance(value, tuple) else str(value)
