"""Draws the random operations of `data.transforms`, with the distributions of torchvision's transforms.

Every random number comes from keys of `EpochPlan`, so the operations on a picture depend only on seed, epoch,
row of the manifest, and step.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from mptctl.recipe import DataRecipe
from mptctl.recipe.transforms import (
    ColorJitter,
    GaussianBlur,
    Grayscale,
    PixelStep,
    RandAugment,
    RandomErasing,
    Rotation,
    Step,
    TrivialAugment,
)

Keys = NDArray[np.uint64]
Pixels = NDArray[np.int64]
Mask = NDArray[np.bool_]
# Takes the number of a field, 0 to FIELDS - 1, and returns (n,) random 64-bit keys, one for each picture. A
# step uses a field of its own for each number that it draws.
Draw = Callable[[int], Keys]
FIELDS = 64

# In torchvision's order. RandAugment and TrivialAugment draw from the first SPACE.
OPERATIONS = (
    "Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast",
    "Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize", "Hue", "Grayscale", "Blur",
)  # fmt: skip
SPACE = 14
# Operations whose magnitude is negative half of the time.
SIGNED = frozenset(OPERATIONS[1:10])
_INDEX = {name: index for index, name in enumerate(OPERATIONS)}
_JITTER = {"brightness": "Brightness", "contrast": "Contrast", "saturation": "Color", "hue": "Hue"}
# torchvision also draws ten times: its RandomErasing, before it leaves a picture as it is, and its
# RandomResizedCrop, before it takes the largest centred window.
_TRIES = 10


@dataclass(frozen=True)
class Operations:
    """An operation on each of n pictures.

    Attributes:
        step: the step of the recipe; its settings apply to all n operations.
        kinds: (n,) indices into `OPERATIONS`.
        amounts: (n,) argument of torchvision's function: degrees, pixels, a factor, bits or a grey level.
    """

    step: PixelStep
    kinds: NDArray[np.int64]
    amounts: NDArray[np.float64]

    def __getitem__(self, rows: slice) -> Operations:
        return Operations(self.step, self.kinds[rows], self.amounts[rows])


@dataclass(frozen=True)
class Erasures:
    """The rectangle that is erased in each of n normalised pictures.

    Attributes:
        step: the step of the recipe.
        boxes: (n, 4) top, left, height and width, in pixels; height 0 where nothing is erased.
        keys: (n,) seeds of the noise that fills the rectangles where the step asks for noise.
    """

    step: RandomErasing
    boxes: NDArray[np.int64]
    keys: Keys

    def __getitem__(self, rows: slice) -> Erasures:
        return Erasures(self.step, self.boxes[rows], self.keys[rows])


@dataclass(frozen=True)
class Transforms:
    """Everything that is done to n pictures after crop and flip.

    Attributes:
        operations: done on uint8 pixels, one after another.
        erasures: done after normalisation.
    """

    operations: tuple[Operations, ...]
    erasures: tuple[Erasures, ...]

    def __getitem__(self, rows: slice) -> Transforms:
        return Transforms(
            tuple(drawn[rows] for drawn in self.operations), tuple(drawn[rows] for drawn in self.erasures)
        )


def draw_transforms(steps: tuple[Step, ...], size: int, draw: Callable[[int], Draw]) -> Transforms:
    """Draw every step of a recipe for n pictures.

    Args:
        steps: the steps of `data.transforms`.
        size: side of the pictures, in pixels.
        draw: takes the index of a step, and returns the function that gives its keys.
    """
    operations: list[Operations] = []
    erasures: list[Erasures] = []
    for index, step in enumerate(steps):
        if isinstance(step, RandomErasing):
            erasures.append(_draw_erasures(step, size, draw(index)))
        else:
            operations += _draw_operations(step, size, draw(index))
    return Transforms(tuple(operations), tuple(erasures))


def _draw_operations(step: PixelStep, size: int, draw: Draw) -> list[Operations]:
    """Draw the operations of one step, in the order in which they are done; ``size`` is in pixels."""
    match step:
        case RandAugment():
            magnitude = np.int64(step.magnitude)
            # Of the three fields of each operation, the last is the magnitude's, which is not drawn here.
            return [_draw_from_space(step, size, draw, 3 * turn, magnitude) for turn in range(step.num_ops)]
        case TrivialAugment():
            magnitudes = below(draw(2), np.int64(step.num_magnitude_bins))
            return [_draw_from_space(step, size, draw, 0, magnitudes)]
        case ColorJitter():
            return _draw_jitter(step, draw)
        case Grayscale():
            return [_draw_sometimes(step, "Grayscale", np.zeros(len(draw(0))), draw)]
        case GaussianBlur():
            return [_draw_sometimes(step, "Blur", between(draw(1), *step.sigmas), draw)]
        case Rotation():
            return [_draw_sometimes(step, "Rotate", between(draw(1), *step.angles), draw)]


def _draw_from_space(
    step: RandAugment | TrivialAugment,
    size: int,
    draw: Draw,
    field: int,
    magnitudes: NDArray[np.int64] | np.int64,
) -> Operations:
    """Draw one of the first SPACE operations for each picture, and the sign of its magnitude.

    Args:
        step: the step; its class says which ranges the magnitudes have.
        size: side of the pictures, in pixels.
        draw: returns the keys of a field.
        field: gives the operations; the next field gives the signs.
        magnitudes: which of the step's magnitudes, from 0: one number for all pictures, or (n,).
    """
    kinds = below(draw(field), np.int64(SPACE))
    signs = toss_coin(draw(field + 1))
    space: Literal["usual", "wide"] = "wide" if isinstance(step, TrivialAugment) else "usual"
    amounts = compute_amounts(space, step.num_magnitude_bins, size)
    return Operations(step, kinds, amounts[kinds, magnitudes, signs])


def _draw_jitter(step: ColorJitter, draw: Draw) -> list[Operations]:
    """Draw the four operations of a jitter, in random order for each picture; Identity for no factor."""
    kinds: list[int] = []
    amounts: list[NDArray[np.float64]] = []
    for number, (factor, operation) in enumerate(_JITTER.items()):
        limits = step.factors[factor]
        kinds.append(_INDEX[operation if limits else "Identity"])
        amounts.append(between(draw(4 + number), *(limits or (1.0, 1.0))))
    # (4, n): which of the four operations comes first, second, third and fourth on each picture.
    order = np.argsort(np.stack([draw(number) for number in range(4)]), axis=0, kind="stable")
    is_done = uniform(draw(8)) < step.p
    kinds_in_order = np.where(is_done, np.array(kinds)[order], _INDEX["Identity"])
    amounts_in_order = np.take_along_axis(np.stack(amounts), order, axis=0)
    return [Operations(step, *drawn) for drawn in zip(kinds_in_order, amounts_in_order, strict=True)]


def _draw_sometimes(
    step: Grayscale | GaussianBlur | Rotation, name: str, amounts: NDArray[np.float64], draw: Draw
) -> Operations:
    """Draw for each picture whether the operation ``name`` is done, with the step's probability p."""
    is_done = uniform(draw(0)) < step.p
    return Operations(step, np.where(is_done, _INDEX[name], _INDEX["Identity"]), amounts)


def _draw_erasures(step: RandomErasing, size: int, draw: Draw) -> Erasures:
    """Draw a rectangle of random area and aspect for each picture as torchvision does: the first to fit."""
    is_erased = uniform(draw(0)) < step.p
    height, width = draw_rectangles(
        draw, 4, step, size * size, is_erased, lambda height, width: (height < size) & (width < size)
    )
    top = below(draw(1), size - height + 1)
    left = below(draw(2), size - width + 1)
    return Erasures(step, np.stack([top, left, height, width], axis=1), draw(3))


def draw_rectangles(
    draw: Draw,
    field: int,
    ranges: RandomErasing | DataRecipe,
    pixels: Pixels | int,
    is_wanted: Mask,
    fits: Callable[[Pixels, Pixels], Mask],
) -> Pixels:
    """Draw a rectangle of random area and aspect for each picture as torchvision does: the first to fit.

    Args:
        draw: returns the keys of a field.
        field: first of the fields: areas have this one and every second one after it, aspects those between.
        ranges: its ``scale`` is the range of areas, as shares of the picture; its ``ratio`` that of aspects,
            whose logarithms are uniform.
        pixels: number of pixels of each picture.
        is_wanted: (n,) False for a picture without a rectangle.
        fits: takes two sides, (n,) each, and tells where such a rectangle fits into the picture.

    Returns:
        (2, n) sides in pixels, the first of which is the second times the aspect; 0 for no rectangle.
    """
    sides = np.zeros((2, len(is_wanted)), dtype=np.int64)
    is_missing = is_wanted
    low, high = np.log(ranges.ratio)
    for areas in range(field, field + 2 * _TRIES, 2):
        area = pixels * between(draw(areas), *ranges.scale)
        aspect = np.exp(between(draw(areas + 1), low, high))
        drawn = np.rint(np.sqrt([area * aspect, area / aspect])).astype(np.int64)
        is_found = is_missing & fits(*drawn)
        sides = np.where(is_found, drawn, sides)
        is_missing = is_missing & ~is_found
        if not is_missing.any():
            break
    return sides


@cache
def compute_amounts(space: Literal["usual", "wide"], bins: int, size: int) -> NDArray[np.float64]:
    """Compute the argument of torchvision's function for each operation, magnitude and sign.

    Args:
        space: magnitudes of RandAugment (usual), or of TrivialAugment (wide).
        bins: number of magnitudes.
        size: side of the pictures, in pixels.

    Returns:
        (operations, bins, 2) arguments for the magnitude and for its negative: twice the same where an
        operation has no sign, 0 where it has no magnitude.
    """
    import torch

    # The ranges are those of torchvision's RandAugment and TrivialAugmentWide.
    is_wide = space == "wide"
    sheared = 0.99 if is_wide else 0.3
    moved = 32.0 if is_wide else 150.0 / 331.0 * size
    coloured = 0.99 if is_wide else 0.9
    largest = {
        "ShearX": sheared, "ShearY": sheared, "TranslateX": moved, "TranslateY": moved,
        "Rotate": 135.0 if is_wide else 30.0,
        "Brightness": coloured, "Color": coloured, "Contrast": coloured, "Sharpness": coloured,
    }  # fmt: skip
    magnitudes = {name: torch.linspace(0.0, most, bins) for name, most in largest.items()}
    magnitudes["Posterize"] = (8 - torch.arange(bins) / ((bins - 1) / (6 if is_wide else 4))).round()
    magnitudes["Solarize"] = torch.linspace(1.0, 0.0, bins)
    amounts = np.zeros((len(OPERATIONS), bins, 2))
    for name, values in magnitudes.items():
        negated = -values if name in SIGNED else values
        amounts[_INDEX[name], :, 0] = [_to_argument(name, magnitude) for magnitude in values.tolist()]
        amounts[_INDEX[name], :, 1] = [_to_argument(name, magnitude) for magnitude in negated.tolist()]
    return amounts


def _to_argument(name: str, magnitude: float) -> float:
    """Convert a magnitude, which may be negative, to the argument of torchvision's function."""
    if name.startswith("Shear"):
        return math.degrees(math.atan(magnitude))
    if name.startswith("Translate"):
        return int(magnitude)
    if name in ("Brightness", "Color", "Contrast", "Sharpness"):
        return 1.0 + magnitude
    return 255 * magnitude if name == "Solarize" else magnitude


def uniform(keys: Keys) -> NDArray[np.float64]:
    """Turn 64-bit keys into numbers in [0, 1), with all 53 bits of a double."""
    return (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53


def between(keys: Keys, low: float, high: float) -> NDArray[np.float64]:
    """Turn 64-bit keys into numbers in [low, high)."""
    return low + (high - low) * uniform(keys)


def below(keys: Keys, limit: NDArray[np.int64] | np.int64) -> NDArray[np.int64]:
    """Turn 64-bit keys into integers from 0 to limit - 1, uniform but for a bias below limit / 2**32."""
    bound = np.asarray(limit).astype(np.uint64)
    return (((keys >> np.uint64(32)) * bound) >> np.uint64(32)).astype(np.int64)


def toss_coin(keys: Keys) -> NDArray[np.int64]:
    """Turn 64-bit keys into 0 or 1, by the highest bit."""
    return (keys >> np.uint64(63)).astype(np.int64)
