"""The whole of what a picture goes through, from the file to the model, in words."""

from __future__ import annotations

from mptctl.recipe.fields import DataRecipe


def evaluation_words(data: DataRecipe) -> str:
    """Size, crop and normalisation of a picture in evaluation."""
    return f"{_resized(data.resized_side, data.image_size)}, {_normalised(data)}"


def training_words(data: DataRecipe) -> str:
    """Crop, mirroring and normalisation of a picture in training."""
    size = data.image_size
    if data.augment == "random-resized-crop":
        low, high = (100 * part for part in data.scale)
        crop = (
            f"a random part of {low:g} to {high:g} % of the area, aspect ratio {data.ratio[0]:.3g} to "
            f"{data.ratio[1]:.3g}, resized to {size} x {size} (bilinear)"
        )
    elif data.augment == "pad-crop":
        crop = f"{_resized(size, size)}, of which a random window with up to {data.padding} pixels of zeros"
    else:
        crop = _resized(size, size)
    mirrored = ", half of them mirrored" if data.flip else ""
    return f"{crop}{mirrored}, {_normalised(data)}"


def _resized(resize: int, size: int) -> str:
    return f"shorter side to {resize} pixels (bilinear), centre crop of {size} x {size}"


def _normalised(data: DataRecipe) -> str:
    mean, std = (" ".join(f"{value:g}" for value in values) for values in (data.mean, data.std))
    return f"mean {mean}, std {std}"
