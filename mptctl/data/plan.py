"""Order, crop and flip as a pure function of (seed, epoch, sample index), whoever reads the pictures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mptctl.data.augmentation.drawing import FIELDS, Keys, Transforms, below, draw_transforms, uniform
from mptctl.data.augmentation.mixing import Pairs, draw_pairs
from mptctl.data.augmentation.sampling import Draws, draw_repeated
from mptctl.recipe import DataRecipe

_WORD = (1 << 64) - 1
# Increment and multipliers of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014; constants of its author's
# public reference, Vigna 2015).
_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB

# The use of a random number. Each sample has one number of each field in each epoch.
_ORDER, _FLIP, _TOP, _LEFT, _TRIES = 0, 1, 2, 3, 16
_REPEATS, _ROUNDING, _PAIRS = 40, 41, 48
VALIDATION_FIELD, TEST_FIELD = 8, 9  # used by split to draw the validation part, and a test part

# torchvision's RandomResizedCrop also draws ten times before it takes the largest centred window.
_CROP_TRIES = 10

# The fields of the steps of data.transforms begin here, FIELDS for each step.
_TRANSFORMS = 64

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Views:
    """The view of each picture: a window of it, mirrored or not. All arrays are (n,).

    With ``pad-crop`` and ``none`` the window is of the picture already resized and centre-cropped to
    a square, and may reach over its edge, where there are zeros; with ``random-resized-crop`` it is
    of the picture as stored, and resized afterwards.
    """

    top: NDArray[np.int64]
    left: NDArray[np.int64]
    height: NDArray[np.int64]
    width: NDArray[np.int64]
    flip: NDArray[np.bool_]

    def __getitem__(self, rows: slice) -> Views:
        return Views(self.top[rows], self.left[rows], self.height[rows], self.width[rows], self.flip[rows])


@dataclass(frozen=True)
class EpochPlan:
    """The pictures of every epoch of a run.

    Nothing in it depends on batch size, number of workers, loader, or which classes are selected: a
    subset keeps the relative order and the views of the whole.

    Attributes:
        seed: seed of the run.
        data: the recipe's picture size and augmentation.
    """

    seed: int
    data: DataRecipe

    def order(self, epoch: int, indices: Indices) -> Indices:
        """The samples in the order of one epoch.

        Args:
            epoch: counted from 0.
            indices: (n,) rows of the manifest, ascending.

        Returns:
            (n,) the same rows, permuted.
        """
        return indices[np.argsort(random_keys(self.seed, epoch, indices, _ORDER), kind="stable")]

    def draws(self, epoch: int, indices: Indices, labels: Indices) -> Draws:
        """The pictures of one epoch in its order: each once, or as `data.sampling` draws them.

        What is drawn is of these samples as a whole: a subset draws its own.

        Args:
            epoch: counted from 0.
            indices: (n,) rows of the manifest, ascending.
            labels: (n,) their classes.
        """
        if self.data.sampling == "none":
            return Draws(self.order(epoch, indices), None)
        offset = uniform(random_keys(self.seed, epoch, np.zeros(1, dtype=np.int64), _ROUNDING))[0]
        repeats = random_keys(self.seed, epoch, indices, _REPEATS)
        drawn = draw_repeated(indices, labels, self.data.sampling, offset, repeats)
        keys = random_keys(self.seed, epoch, drawn.rows, _ORDER, drawn.copies)
        return drawn[np.argsort(keys, kind="stable")]

    def pairs(self, epoch: int, position: int, count: int) -> Pairs | None:
        """Draw the mixing of neighbours in the epoch's order, 2i with 2i + 1; None where none are mixed.

        Args:
            epoch: counted from 0.
            position: of the first picture in the epoch's order, even.
            count: of pictures, even.
        """
        if not self.data.mixes:
            return None
        pair = np.arange(position // 2, (position + count) // 2)
        return draw_pairs(self.data, lambda field: random_keys(self.seed, epoch, pair, _PAIRS + field))

    def views(
        self,
        epoch: int,
        indices: Indices,
        heights: NDArray[np.int32],
        widths: NDArray[np.int32],
        copies: Indices | None = None,
    ) -> Views:
        """Training crop and flip of each sample.

        Args:
            epoch: counted from 0.
            indices: (n,) rows of the manifest, in any order.
            heights, widths: (n,) size of each picture as stored, in pixels.
            copies: (n,) which copy of its row each is, where the epoch draws rows several times.

        Returns:
            A window and a flip for each.
        """
        size = self.data.image_size
        if self.data.flip:
            flip = (random_keys(self.seed, epoch, indices, _FLIP, copies) >> np.uint64(63)).astype(np.bool_)
        else:
            flip = np.zeros(len(indices), dtype=np.bool_)
        if self.data.augment == "random-resized-crop":
            return self._resized_crops(epoch, indices, heights, widths, copies, flip)
        side = np.full(len(indices), size, dtype=np.int64)
        if self.data.augment == "none":
            zero = np.zeros(len(indices), dtype=np.int64)
            return Views(zero, zero, side, side, flip)
        places = np.int64(2 * self.data.padding + 1)
        top = below(random_keys(self.seed, epoch, indices, _TOP, copies), places) - self.data.padding
        left = below(random_keys(self.seed, epoch, indices, _LEFT, copies), places) - self.data.padding
        return Views(top, left, side, side, flip)

    def transforms(self, epoch: int, indices: Indices, copies: Indices | None = None) -> Transforms | None:
        """Operations of `data.transforms` on each sample after crop and flip; None where it is empty.

        Args:
            epoch: counted from 0.
            indices: (n,) rows of the manifest, in any order.
            copies: as of `views`.
        """
        if not self.data.transforms:
            return None

        def draw(step: int) -> Callable[[int], Keys]:
            first = _TRANSFORMS + step * FIELDS
            return lambda field: random_keys(self.seed, epoch, indices, first + field, copies)

        return draw_transforms(self.data.transforms, self.data.image_size, draw)

    def _resized_crops(
        self,
        epoch: int,
        indices: Indices,
        heights: NDArray[np.int32],
        widths: NDArray[np.int32],
        copies: Indices | None,
        flip: NDArray[np.bool_],
    ) -> Views:
        """Windows of random area and aspect (Szegedy et al., 2015), drawn as torchvision draws them."""
        high, wide = heights.astype(np.int64), widths.astype(np.int64)
        height, width = _largest_window(high, wide, self.data.ratio)
        centred = np.ones(len(indices), dtype=np.bool_)
        low_scale, high_scale = self.data.scale
        low_log, high_log = np.log(self.data.ratio)
        for attempt in range(_CROP_TRIES):
            field = _TRIES + 2 * attempt
            share = uniform(random_keys(self.seed, epoch, indices, field, copies))
            lean = uniform(random_keys(self.seed, epoch, indices, field + 1, copies))
            area = (low_scale + (high_scale - low_scale) * share) * (high * wide)
            aspect = np.exp(low_log + (high_log - low_log) * lean)
            w = np.rint(np.sqrt(area * aspect)).astype(np.int64)
            h = np.rint(np.sqrt(area / aspect)).astype(np.int64)
            take = centred & (w > 0) & (w <= wide) & (h > 0) & (h <= high)
            height, width = np.where(take, h, height), np.where(take, w, width)
            centred &= ~take
            if not centred.any():
                break
        top = below(random_keys(self.seed, epoch, indices, _TOP, copies), high - height + 1)
        left = below(random_keys(self.seed, epoch, indices, _LEFT, copies), wide - width + 1)
        top = np.where(centred, (high - height) // 2, top)
        left = np.where(centred, (wide - width) // 2, left)
        return Views(top, left, height, width, flip)


def random_keys(seed: int, epoch: int, indices: Indices, field: int, copies: Indices | None = None) -> Keys:
    """A random 64-bit number for each sample, a function of the arguments alone.

    Args:
        seed: seed of the run.
        epoch: counted from 0.
        indices: (n,) rows of the manifest.
        field: what the number is for; numbers of different fields are independent.
        copies: (n,) number of each sample among those of its row; None, and 0, is the first.

    Returns:
        (n,) uniform over all 64-bit words.
    """
    counter = indices.astype(np.uint64) * np.uint64(_GOLDEN) + _state(seed, epoch, field)
    if copies is not None:
        counter += _mix(copies.astype(np.uint64))  # of 0 it is 0
    return _mix(_mix(counter))


@lru_cache(maxsize=1024)  # of an epoch, which asks for them batch by batch
def _state(seed: int, epoch: int, field: int) -> Keys:
    """(1,) the three, mixed one after the other: a sum is the same for seed 1, epoch 0 and the reverse."""
    state = np.zeros(1, dtype=np.uint64)
    for word in (seed, epoch, field):
        state = _mix(state + np.uint64((_GOLDEN + word) & _WORD))
    return state


def worker_share(size: int, rank: int, world_size: int) -> slice:
    """The contiguous part of a global batch that a worker has; the parts of all workers make up the whole.

    Args:
        size: samples in the global batch.
        rank: which worker, from 0.
        world_size: how many workers.

    >>> [worker_share(10, rank, 3) for rank in range(3)]
    [slice(0, 3, None), slice(3, 6, None), slice(6, 10, None)]
    """
    return slice(size * rank // world_size, size * (rank + 1) // world_size)


def _mix(x: Keys) -> Keys:
    x = (x ^ (x >> np.uint64(30))) * np.uint64(_MIX_1)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(_MIX_2)
    return x ^ (x >> np.uint64(31))


def _largest_window(
    high: NDArray[np.int64], wide: NDArray[np.int64], ratio: tuple[float, float]
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Largest window whose aspect lies within the limits: what is taken when no draw fits."""
    aspect = wide / high
    height = np.where(aspect < ratio[0], np.rint(wide / ratio[0]), high)
    width = np.where(aspect > ratio[1], np.rint(high * ratio[1]), wide)
    return np.minimum(height, high).astype(np.int64), np.minimum(width, wide).astype(np.int64)
