"""Draws how pairs of pictures are mixed: MixUp (Zhang et al. 2018) and CutMix (Yun et al. 2019)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from mptctl.data.augmentation.drawing import Keys, below, uniform
from mptctl.recipe import DataRecipe

# Lambda is a multiple of 1 / LAMBDA_STEPS, so that lambda and 1 - lambda are exact in float32.
LAMBDA_STEPS = 1 << 16
# The fields of the random numbers of a pair.
_MIXED, _CUT, _LAMBDA, _ROW, _COLUMN = range(5)


@dataclass(frozen=True)
class Pairs:
    """The mixing of the two pictures of each of p pairs.

    Attributes:
        kept: (p,) float32 weight of a picture's own pixels outside the box: lambda of MixUp, else 1.
        boxes: (p, 4) first row, end row, first column and end column of the box that the two pictures
            exchange in CutMix; the ends are not in the box. All 0 for other pairs.
        weight: (p,) float32 weight of a picture's own label: lambda of MixUp, the share of pixels outside the
            box of CutMix, 1 for a pair that is not mixed.
    """

    kept: NDArray[np.float32]
    boxes: NDArray[np.int64]
    weight: NDArray[np.float32]

    def __getitem__(self, pairs: slice) -> Pairs:
        return Pairs(self.kept[pairs], self.boxes[pairs], self.weight[pairs])


def draw_pairs(data: DataRecipe, draw: Callable[[int], Keys]) -> Pairs:
    """Draw how each pair is mixed, with lambda and box as torchvision's MixUp and CutMix draw them.

    Where a recipe has both, each is drawn with probability 0.5.

    Args:
        data: size of the pictures, the alphas of MixUp and CutMix, and the probability of mixing.
        draw: returns (p,) random 64-bit keys for the number of a field, 0 to 4.
    """
    from scipy.special import betaincinv  # here, as else every command that reads a split loads scipy

    mixed = uniform(draw(_MIXED)) < data.mix_probability
    cut_share = 0.5 if data.mixup else 1.0
    is_cut = (uniform(draw(_CUT)) < cut_share) & bool(data.cutmix)
    alpha = np.where(is_cut, data.cutmix, data.mixup)
    lam = np.rint(betaincinv(alpha, alpha, uniform(draw(_LAMBDA))) * LAMBDA_STEPS) / LAMBDA_STEPS
    size = data.image_size
    half_side = (0.5 * np.sqrt(1 - lam) * size).astype(np.int64)
    ends = []
    for field in (_ROW, _COLUMN):
        centre = below(draw(field), np.int64(size))
        ends += [np.maximum(centre - half_side, 0), np.minimum(centre + half_side, size)]
    boxes = np.where((mixed & is_cut)[:, None], np.stack(ends, axis=1), 0)
    share_outside = 1 - (boxes[:, 1] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 2]) / size**2
    kept = np.where(mixed & ~is_cut, lam, 1.0)
    return Pairs(kept.astype(np.float32), boxes, (kept * share_outside).astype(np.float32))
