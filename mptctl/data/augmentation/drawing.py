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
_PLACE = {name: place for place, name in enumerate(OPERATIONS)}
_JITTER = {"brightness": "Brightness", "contrast": "Contrast", "saturation": "Color", "hue": "Hue"}
# torchvision's RandomErasing also draws ten times before it leaves a picture as it is.
_ERASING_TRIES = 10


@dataclass(frozen=True)
class Operations:
    """An operation on each of n pictures.

    Attributes:
        step: the step of the recipe; its settings apply to all n operations.
        kinds: (n,) places in `OPERATIONS`.
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
        draw: returns the keys of a step, for the place of the step.
    """
    operations: list[Operations] = []
    erasures: list[Erasures] = []
    for place, step in enumerate(steps):
        if isinstance(step, RandomErasing):
            erasures.append(_draw_erasures(step, size, draw(place)))
        else:
            operations += _draw_operations(step, size, draw(place))
    return Transforms(tuple(operations), tuple(erasures))


def _draw_operations(step: PixelStep, size: int, draw: Draw) -> list[Operations]:
    """Draw the operations of one step, in the order in which they are done; ``size`` is in pixels."""
    match step:
        case RandAugment():
            bins = np.int64(step.magnitude)
            return [_draw_from_space(step, size, draw, 3 * turn, bins) for turn in range(step.num_ops)]
        case TrivialAugment():
            return [_draw_from_space(step, size, draw, 0, below(draw(2), np.int64(step.num_magnitude_bins)))]
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
    bins: NDArray[np.int64] | np.int64,
) -> Operations:
    """Draw one of the first SPACE operations for each picture, and the sign of its magnitude.

    Args:
        step: the kind of step; says how many magnitudes there are.
        size: side of the pictures, in pixels.
        draw: returns the keys of a field.
        field: the first of two fields that are read.
        bins: place of the magnitude among all of them: one for all pictures, or (n,).
    """
    kinds = below(draw(field), np.int64(SPACE))
    is_wide = isinstance(step, TrivialAugment)
    table = compute_amounts("wide" if is_wide else "usual", step.num_magnitude_bins, size)
    return Operations(step, kinds, table[kinds, bins, _toss_coin(draw(field + 1))])


def _draw_jitter(step: ColorJitter, draw: Draw) -> list[Operations]:
    """Draw the operations of a jitter, in random order for each picture; Identity for one without factors."""
    factors = step.factors
    kinds = np.array([_PLACE[_JITTER[key] if factors[key] else "Identity"] for key in _JITTER])
    amounts = np.stack(
        [between(draw(4 + place), *(factors[key] or (1.0, 1.0))) for place, key in enumerate(_JITTER)]
    )
    # (4, n): the place in `_JITTER` of the first, second, third and fourth operation on each picture.
    order = np.argsort(np.stack([draw(place) for place in range(4)]), axis=0, kind="stable")
    is_done = uniform(draw(8)) < step.p
    return [
        Operations(
            step,
            np.where(is_done, kinds[places], _PLACE["Identity"]),
            np.take_along_axis(amounts, places[None], axis=0)[0],
        )
        for places in order
    ]


def _draw_sometimes(
    step: Grayscale | GaussianBlur | Rotation, name: str, amounts: NDArray[np.float64], draw: Draw
) -> Operations:
    """Draw for each picture whether the operation ``name`` is done, with the step's probability p."""
    is_done = uniform(draw(0)) < step.p
    return Operations(step, np.where(is_done, _PLACE[name], _PLACE["Identity"]), amounts)


def _draw_erasures(step: RandomErasing, size: int, draw: Draw) -> Erasures:
    """Draw a rectangle of random area and aspect for each picture as torchvision does: the first to fit."""
    height = width = np.zeros(len(draw(0)), dtype=np.int64)
    is_missing = uniform(draw(0)) < step.p
    low, high = np.log(step.ratio)
    for attempt in range(_ERASING_TRIES):
        area = size * size * between(draw(4 + 2 * attempt), *step.scale)
        aspect = np.exp(between(draw(5 + 2 * attempt), low, high))
        h = np.rint(np.sqrt(area * aspect)).astype(np.int64)
        w = np.rint(np.sqrt(area / aspect)).astype(np.int64)
        fits = is_missing & (h < size) & (w < size)
        height, width = np.where(fits, h, height), np.where(fits, w, width)
        is_missing &= ~fits
        if not is_missing.any():
            break
    top = below(draw(1), size - height + 1)
    left = below(draw(2), size - width + 1)
    return Erasures(step, np.stack([top, left, height, width], axis=1), draw(3))


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
    moved = 32.0 if is_wide else 150.0 / 331.0 * size
    largest = {
        "ShearX": 0.99 if is_wide else 0.3, "ShearY": 0.99 if is_wide else 0.3,
        "TranslateX": moved, "TranslateY": moved, "Rotate": 135.0 if is_wide else 30.0,
    }  # fmt: skip
    largest |= dict.fromkeys(("Brightness", "Color", "Contrast", "Sharpness"), 0.99 if is_wide else 0.9)
    steps = torch.arange(bins) / ((bins - 1) / (6 if is_wide else 4))
    magnitudes = {name: torch.linspace(0.0, most, bins) for name, most in largest.items()}
    magnitudes["Posterize"] = (8 - steps).round()
    magnitudes["Solarize"] = torch.linspace(1.0, 0.0, bins)
    table = np.zeros((len(OPERATIONS), bins, 2))
    for name, values in magnitudes.items():
        for place, value in enumerate(values.tolist()):
            for side, signed in enumerate((value, -value if name in SIGNED else value)):
                table[_PLACE[name], place, side] = _to_argument(name, signed)
    return table


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


def _toss_coin(keys: Keys) -> NDArray[np.int64]:
    """Turn 64-bit keys into 0 or 1, by the highest bit."""
    return (keys >> np.uint64(63)).astype(np.int64)
