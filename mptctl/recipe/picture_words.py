"""Describes in words how pictures are prepared for the model, in evaluation and in training."""

from __future__ import annotations

from mptctl.recipe.data import DataRecipe
from mptctl.recipe.transforms import RandomErasing


def describe_evaluation_pictures(data: DataRecipe) -> str:
    """Describe size, crop and normalisation of a picture in evaluation."""
    return f"{_turned(data)}{_resized(data, data.resized_side)}, {_normalised(data)}"


def describe_training_pictures(data: DataRecipe) -> str:
    """Describe crop, mirroring, further steps, normalisation, mixing and sampling of pictures in training."""
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
    before = [repr(step) for step in data.transforms if not isinstance(step, RandomErasing)]
    after = [repr(step) for step in data.transforms if isinstance(step, RandomErasing)]
    return ", ".join(
        [f"{_turned(data)}{crop}{mirrored}", *before, _normalised(data), *after, *_mixing_and_sampling(data)]
    )


def _mixing_and_sampling(data: DataRecipe) -> list[str]:
    """Words on MixUp and CutMix and on the sampling of classes; empty for a recipe without them."""
    alphas = {"MixUp": data.mixup, "CutMix": data.cutmix}
    ways = [f"{name} (alpha {alpha:g})" for name, alpha in alphas.items() if alpha]
    words = []
    if ways:
        share = "pairs" if data.mix_probability == 1 else f"{100 * data.mix_probability:g} % of the pairs"
        words.append(f"{share} mixed by {' or '.join(ways)}")
    if data.sampling != "none":
        words.append(f"classes drawn {'all as often' if data.sampling == 'balanced' else 'by square root'}")
    return words


def _turned(data: DataRecipe) -> str:
    """Words on the EXIF rotation; empty where it is ignored."""
    return "EXIF rotation applied, " if data.exif == "apply" else ""


def _resized(data: DataRecipe, resize: int) -> str:
    """Words on resizing to ``resize`` pixels and the centre crop."""
    size = data.image_size
    return f"shorter side to {resize} pixels ({data.interpolation}), centre crop of {size} x {size}"


def _normalised(data: DataRecipe) -> str:
    """Words on mean and std."""
    mean, std = (" ".join(f"{value:g}" for value in values) for values in (data.mean, data.std))
    return f"mean {mean}, std {std}"
