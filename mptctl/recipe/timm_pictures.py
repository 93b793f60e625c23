"""Reads from timm's config of a network how its pictures are prepared, as keys of the group `data`."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cache
from importlib.util import find_spec
from typing import Any, get_args

from mptctl.recipe.data import Interpolation

_TIMM = "timm:"


def picture_keys(config: Mapping[str, Any], image_size: int) -> dict[str, Any]:
    """Convert a `pretrained_cfg` of timm to the keys mean, std, interpolation and eval_resize of `data`.

    Missing values are left out, and so is an interpolation that recipes do not have, such as lanczos.

    Args:
        config: the `pretrained_cfg`; its ``crop_pct`` is the side of the crop over that of the resized
            picture.
        image_size: side of the crop, in pixels.

    Raises:
        TypeError, ValueError: a value is not a number, or not a list of numbers.
        ZeroDivisionError, OverflowError: ``crop_pct`` is 0 or close to it.

    >>> picture_keys({"mean": (0.5, 0.5, 0.5), "crop_pct": 0.9, "interpolation": "bicubic"}, 224)
    {'mean': [0.5, 0.5, 0.5], 'interpolation': 'bicubic', 'eval_resize': 248}
    """
    keys: dict[str, Any] = {
        key: [float(value) for value in config[key]] for key in ("mean", "std") if config.get(key)
    }
    if config.get("interpolation") in get_args(Interpolation):
        keys["interpolation"] = config["interpolation"]
    if config.get("crop_pct"):
        keys["eval_resize"] = math.floor(image_size / float(config["crop_pct"]))  # rounded as in timm
    return keys


@cache
def picture_keys_of_network(arch: str, image_size: int) -> dict[str, Any]:
    """The keys of `picture_keys` for a network by its name, for pictures of ``image_size`` pixels.

    Empty if the network is not timm's, timm does not know it, or timm is not installed.
    """
    if not arch.startswith(_TIMM) or find_spec("timm") is None:
        return {}
    import timm

    config = timm.get_pretrained_cfg(arch.removeprefix(_TIMM), allow_unregistered=True)
    return picture_keys(config.to_dict(), image_size) if config is not None else {}
