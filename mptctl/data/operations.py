"""Does what `data.transforms` draws: operations of torchvision on uint8 pixels, and erasing afterwards.

All loaders call the two functions here, so that a picture is the same whichever of them brings it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache
from typing import Any

import numpy as np
import torch
from torch import Tensor

from mptctl.data.drawing import OPERATIONS, Erasures, Operations, Transforms


def operate(pictures: Tensor, transforms: Transforms) -> Tensor:
    """Do the drawn operations on pictures.

    On a CPU each picture is done by itself, in one layout, so that its bits depend on nothing else; on a GPU
    those that share an operation and its amount are done together.

    Args:
        pictures: (n, S, S, 3) uint8; stays as it is.
        transforms: (n,) each.

    Returns:
        (n, S, S, 3) uint8.
    """
    if not transforms.operations:
        return pictures
    images = pictures.permute(0, 3, 1, 2).clone(memory_format=torch.contiguous_format)
    for operations in transforms.operations:
        for rows, name, amount in _groups(operations, images.device):
            images[rows] = _operations()[name](images[rows], amount, operations.step)
    return images.permute(0, 2, 3, 1)


def _groups(operations: Operations, device: torch.device) -> Iterator[tuple[int | Tensor, str, float]]:
    """Rows that are done together, with the name and amount of their operation."""
    kinds, amounts = operations.kinds, operations.amounts
    if device.type == "cpu":
        for row in np.flatnonzero(kinds).tolist():  # all but Identity, the first
            yield row, OPERATIONS[kinds[row]], float(amounts[row])
        return
    for kind, amount in sorted(set(zip(kinds.tolist(), amounts.tolist(), strict=True))):
        if kind:
            rows = torch.from_numpy(np.flatnonzero((kinds == kind) & (amounts == amount)))
            yield rows.pin_memory().to(device, non_blocking=True), OPERATIONS[kind], amount


def erase(pictures: Tensor, transforms: Transforms) -> None:
    """Fill the drawn rectangles, in place.

    Args:
        pictures: (n, S, S, 3) float32, normalised.
        transforms: (n,) each.
    """
    for erasures in transforms.erasures:
        for row in np.flatnonzero(erasures.boxes[:, 2]).tolist():
            top, left, height, width = erasures.boxes[row].tolist()
            window = pictures[row, top : top + height, left : left + width]
            window.copy_(_filling(erasures, row, height, width))


def _filling(erasures: Erasures, row: int, height: int, width: int) -> Tensor:
    """(1,), (3,) or (height, width, 3) values of a rectangle."""
    value = erasures.step.value
    if value is not None:
        return torch.tensor(value if isinstance(value, Sequence) else [value], dtype=torch.float32)
    noise = np.random.Generator(np.random.Philox(int(erasures.keys[row])))
    return torch.from_numpy(noise.standard_normal((height, width, 3), dtype=np.float32))


# One operation on (..., 3, S, S) uint8, by an amount, with the settings of its step.
_Operation = Callable[[Tensor, float, Any], Tensor]


@cache
def _operations() -> dict[str, _Operation]:
    """torchvision's functions, called as its transforms call them."""
    from torchvision.transforms.v2 import functional as vision

    def rotate(image: Tensor, degrees: float, step: Any) -> Tensor:
        turned: Tensor = vision.rotate(image, degrees, **_reading(step))
        return turned

    def shear(horizontal: bool) -> _Operation:
        def sheared(image: Tensor, degrees: float, step: Any) -> Tensor:
            angles = [degrees, 0.0] if horizontal else [0.0, degrees]
            moved: Tensor = vision.affine(image, 0.0, [0, 0], 1.0, angles, center=[0, 0], **_reading(step))
            return moved

        return sheared

    def translate(horizontal: bool) -> _Operation:
        def translated(image: Tensor, pixels: float, step: Any) -> Tensor:
            shift = [int(pixels), 0] if horizontal else [0, int(pixels)]
            moved: Tensor = vision.affine(image, 0.0, shift, 1.0, [0.0, 0.0], **_reading(step))
            return moved

        return translated

    return {
        "ShearX": shear(horizontal=True),
        "ShearY": shear(horizontal=False),
        "TranslateX": translate(horizontal=True),
        "TranslateY": translate(horizontal=False),
        "Rotate": rotate,
        "Brightness": lambda image, factor, step: vision.adjust_brightness(image, factor),
        "Color": lambda image, factor, step: vision.adjust_saturation(image, factor),
        "Contrast": lambda image, factor, step: vision.adjust_contrast(image, factor),
        "Sharpness": lambda image, factor, step: vision.adjust_sharpness(image, factor),
        "Posterize": lambda image, bits, step: vision.posterize(image, int(bits)),
        "Solarize": lambda image, level, step: vision.solarize(image, level),
        "AutoContrast": lambda image, amount, step: vision.autocontrast(image),
        "Equalize": lambda image, amount, step: vision.equalize(image),
        "Invert": lambda image, amount, step: vision.invert(image),
        "Hue": lambda image, turn, step: vision.adjust_hue(image, turn),
        "Grayscale": lambda image, amount, step: vision.rgb_to_grayscale(image, num_output_channels=3),
        "Blur": lambda image, sigma, step: vision.gaussian_blur(image, [step.kernel_size] * 2, [sigma] * 2),
    }


def _reading(step: Any) -> dict[str, Any]:
    """How moved pixels are read, and what lies beyond the edge."""
    from torchvision.transforms.v2 import InterpolationMode

    fill = list(step.fill) if isinstance(step.fill, tuple) else step.fill
    return {"interpolation": InterpolationMode(step.interpolation), "fill": fill}
