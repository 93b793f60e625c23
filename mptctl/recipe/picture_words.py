"""The whole of what a picture goes through, from the file to the model, in words."""

from __future__ import annotations

from mptctl.recipe.data import DataRecipe
from mptctl.recipe.transforms import RandomErasing


def evaluation_words(data: DataRecipe) -> str:
    """Size, crop and normalisation of a picture in evaluation."""
    return f"{_resized(data, data.resized_side)}, {_normalised(data)}"


def training_words(data: DataRecipe) -> str:
    """Crop, mirroring, normalisation and mixing of a picture in training."""
    size = data.image_size
    if data.augment == "random-resized-crop":
        low, high = (100 * part for part in data.scale)
        crop = (
            f"a random part of {low:g} to {high:g} % of the area, aspect ratio {data.ratio[0]:.3g} to "
            f"{data.ratio[1]:.3g}, resized to {size} x {size} ({data.interpolation})"
        )
    elif data.augment == "pad-crop":
        crop = f"{_resized(data, size)}, of which a random window with up to {data.padding} pixels of zeros"
    else:
        crop = _resized(data, size)
    mirrored = ", half of them mirrored" if data.flip else ""
    pixels: list[str] = []
    erasing: list[str] = []
    for step in data.transforms:
        (erasing if isinstance(step, RandomErasing) else pixels).append(repr(step))
    return ", ".join([f"{crop}{mirrored}", *pixels, _normalised(data), *erasing, *_drawn(data)])


def _drawn(data: DataRecipe) -> list[str]:
    """Words on the mixing of neighbours and the drawing of classes, where a recipe has them."""
    ways = [
        f"{name} (alpha {alpha:g})"
        for name, alpha in (("MixUp", data.mixup), ("CutMix", data.cutmix))
        if alpha
    ]
    words = []
    if ways:
        share = "pairs" if data.mix_probability == 1 else f"{100 * data.mix_probability:g} % of the pairs"
        words.append(f"{share} mixed by {' or '.join(ways)}")
    if data.sampling != "none":
        words.append(f"classes drawn {'all as often' if data.sampling == 'balanced' else 'by square root'}")
    return words


def _resized(data: DataRecipe, resize: int) -> str:
    size = data.image_size
    return f"shorter side to {resize} pixels ({data.interpolation}), centre crop of {size} x {size}"


def _normalised(data: DataRecipe) -> str:
    mean, std = (" ".join(f"{value:g}" for value in values) for values in (data.mean, data.std))
    return f"mean {mean}, std {std}"
