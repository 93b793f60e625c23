"""Draws how neighbours of an epoch are mixed: MixUp (Zhang et al. 2018) and CutMix (Yun et al. 2019)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mptctl.data.augmentation.drawing import Keys, below, uniform
from mptctl.recipe import DataRecipe

# Lambda is a multiple of one over it, so that lambda and 1 - lambda are float32 numbers without rounding.
STEPS = 1 << 16
# The numbers that a pair draws, by their fields.
_MIXED, _CUT, _LAMBDA, _ROW, _COLUMN = range(5)


@dataclass(frozen=True)
class Pairs:
    """The mixing of p pairs of pictures: both of a pair in the same way, each with the other.

    Attributes:
        kept: (p,) float32 part of itself that a picture keeps outside the box: lambda of MixUp, else 1.
        boxes: (p, 4) first row, row behind the last, and the same of columns, of the part that the two
            exchange; empty but for CutMix.
        weight: (p,) float32 of a picture's own label: lambda, under CutMix what the box leaves.
    """

    kept: NDArray[np.float32]
    boxes: NDArray[np.int64]
    weight: NDArray[np.float32]

    def __getitem__(self, pairs: slice) -> Pairs:
        return Pairs(self.kept[pairs], self.boxes[pairs], self.weight[pairs])


def draw_pairs(data: DataRecipe, draw: Callable[[int], Keys]) -> Pairs:
    """Draws whether each pair is mixed, how, and how much; lambda and box as torchvision's transforms do.

    Args:
        data: says which, and how often.
        draw: (p,) random 64-bit numbers of a field, for fields 0 to 4.
    """
    from scipy.special import betaincinv  # here, since all that reads a split would load scipy

    mixed = uniform(draw(_MIXED)) < data.mix_probability
    is_cut = uniform(draw(_CUT)) < (0.5 if data.mixup else 1.0) if data.cutmix else np.zeros_like(mixed)
    alpha = np.where(is_cut, data.cutmix, data.mixup)
    lam = np.rint(betaincinv(alpha, alpha, uniform(draw(_LAMBDA))) * STEPS) / STEPS
    size = data.image_size
    half = (0.5 * np.sqrt(1 - lam) * size).astype(np.int64)
    ends = []
    for field in (_ROW, _COLUMN):
        centre = below(draw(field), np.int64(size))
        ends += [np.maximum(centre - half, 0), np.minimum(centre + half, size)]
    boxes = np.where((mixed & is_cut)[:, None], np.stack(ends, axis=1), 0)
    left = 1 - (boxes[:, 1] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 2]) / size**2
    kept = np.where(mixed & ~is_cut, lam, 1.0)
    return Pairs(kept.astype(np.float32), boxes, (kept * left).astype(np.float32))
