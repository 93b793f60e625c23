"""Operations on uint8 pixels: torchvision's function of each, called with the arguments of its transforms."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from torch import Tensor

# Takes (..., 3, S, S) uint8 pictures, the amount, and the step of the recipe; returns new pictures.
Operation = Callable[[Tensor, float, Any], Tensor]


@cache
def torchvision_operations() -> dict[str, Operation]:
    """Return the function of each operation of `OPERATIONS` but Identity, by name."""
    from torchvision.transforms.v2 import functional as vision

    return {
        "ShearX": lambda image, degrees, step: vision.affine(
            image, 0.0, [0, 0], 1.0, [degrees, 0.0], center=[0, 0], **_resampling_keywords(step)
        ),
        "ShearY": lambda image, degrees, step: vision.affine(
            image, 0.0, [0, 0], 1.0, [0.0, degrees], center=[0, 0], **_resampling_keywords(step)
        ),
        "TranslateX": lambda image, pixels, step: vision.affine(
            image, 0.0, [int(pixels), 0], 1.0, [0.0, 0.0], **_resampling_keywords(step)
        ),
        "TranslateY": lambda image, pixels, step: vision.affine(
            image, 0.0, [0, int(pixels)], 1.0, [0.0, 0.0], **_resampling_keywords(step)
        ),
        "Rotate": lambda image, degrees, step: vision.rotate(image, degrees, **_resampling_keywords(step)),
        "Brightness": lambda image, factor, step: vision.adjust_brightness(image, factor),
        "Color": lambda image, factor, step: vision.adjust_saturation(image, factor),
        "Contrast": lambda image, factor, step: vision.adjust_contrast(image, factor),
        "Sharpness": lambda image, factor, step: vision.adjust_sharpness(image, factor),
        "Posterize": lambda image, bits, step: vision.posterize(image, int(bits)),
        "Solarize": lambda image, level, step: vision.solarize(image, level),
        "AutoContrast": lambda image, amount, step: vision.autocontrast(image),
        "Equalize": lambda image, amount, step: vision.equalize(image),
        "Hue": lambda image, turn, step: vision.adjust_hue(image, turn),
        "Grayscale": lambda image, amount, step: vision.rgb_to_grayscale(image, num_output_channels=3),
        "Blur": lambda image, sigma, step: vision.gaussian_blur(image, [step.kernel_size] * 2, [sigma] * 2),
    }


def _resampling_keywords(step: Any) -> dict[str, Any]:
    """Return keywords of torchvision's functions that move pixels: interpolation, colour beyond the edge."""
    from torchvision.transforms.v2 import InterpolationMode

    fill = list(step.fill) if isinstance(step.fill, tuple) else step.fill
    return {"interpolation": InterpolationMode(step.interpolation), "fill": fill}
