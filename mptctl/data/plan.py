"""Order and augmentation of pictures as a pure function of seed, epoch and row of the manifest."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from mptctl.data.augmentation.drawing import (
    FIELDS,
    Draw,
    Keys,
    Mask,
    Pixels,
    Transforms,
    below,
    draw_rectangles,
    draw_transforms,
    toss_coin,
    uniform,
)
from mptctl.data.augmentation.mixing import Pairs, draw_pairs
from mptctl.data.augmentation.sampling import Draws, draw_repeated
from mptctl.recipe import DataRecipe

_WORD = (1 << 64) - 1
# Increment and multipliers of SplitMix64 (Steele, Lea and Flood, OOPSLA 2014; constants of its author's
# public reference, Vigna 2015).
_GOLDEN = 0x9E3779B97F4A7C15
_MIX_1 = 0xBF58476D1CE4E5B9
_MIX_2 = 0x94D049BB133111EB

# Fields: what a random number is used for. Each sample has one number of each field in each epoch.
_ORDER, _FLIP, _TOP, _LEFT, _TRIES = 0, 1, 2, 3, 16
_REPEATS, _ROUNDING, _PAIRS = 40, 41, 48
VALIDATION_FIELD, TEST_FIELD = 8, 9  # `split` draws the validation part and a test part by them

# The first field of the first step of data.transforms; each step has FIELDS of them.
_TRANSFORMS = 64

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Views:
    """The window of each of n pictures that the model sees, mirrored or not. All arrays are (n,), in pixels.

    With ``pad-crop`` and ``none``, the window is cut from the picture resized and centre-cropped to a square;
    it may reach over the edge of that square, where there are zeros. With ``random-resized-crop``, it is cut
    from the picture as decoded, and resized afterwards.
    """

    top: NDArray[np.int64]
    left: NDArray[np.int64]
    height: NDArray[np.int64]
    width: NDArray[np.int64]
    flip: NDArray[np.bool_]


@dataclass(frozen=True)
class EpochPlan:
    """Draws order, views, transforms and mixing for every epoch of a run.

    Nothing here depends on batch size, number of workers or loader. A subset of the samples keeps its
    relative order and its views; only `draws` with a sampling depends on the whole.

    Attributes:
        seed: seed of the run.
        data: picture size and augmentation of the recipe.
    """

    seed: int
    data: DataRecipe

    def order(self, epoch: int, indices: Indices) -> Indices:
        """Return the samples in the order of one epoch, each once.

        Args:
            epoch: counted from 0.
            indices: (n,) rows of the manifest, ascending.

        Returns:
            (n,) the same rows, permuted.
        """
        return indices[np.argsort(random_keys(self.seed, epoch, indices, _ORDER), kind="stable")]

    def draws(self, epoch: int, indices: Indices, labels: Indices) -> Draws:
        """Return the pictures of one epoch in its order: each once, or as often as `data.sampling` draws it.

        Args:
            epoch: counted from 0.
            indices: (n,) rows of the manifest, ascending.
            labels: (n,) classes of these rows.
        """
        if self.data.sampling == "none":
            return Draws(self.order(epoch, indices), None)
        offset = uniform(random_keys(self.seed, epoch, np.zeros(1, dtype=np.int64), _ROUNDING))[0]
        repeats = random_keys(self.seed, epoch, indices, _REPEATS)
        drawn = draw_repeated(indices, labels, self.data.sampling, offset, repeats)
        keys = random_keys(self.seed, epoch, drawn.rows, _ORDER, drawn.copies)
        return drawn[np.argsort(keys, kind="stable")]

    def pairs(self, epoch: int, position: int, count: int) -> Pairs | None:
        """Draw how neighbours in the epoch's order, 2i and 2i + 1, are mixed; None if the recipe mixes none.

        Args:
            epoch: counted from 0.
            position: place of the first picture in the epoch's order, even.
            count: number of pictures, even.
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
        """Draw the training crop and flip of each sample.

        Args:
            epoch: counted from 0.
            indices: (n,) rows of the manifest, in any order.
            heights, widths: (n,) size of each picture as the loader decodes it, in pixels.
            copies: (n,) number of each sample among those of its row; None if the epoch has each row once.
        """

        def draw(field: int) -> Keys:
            return random_keys(self.seed, epoch, indices, field, copies)

        flip = np.zeros(len(indices), dtype=np.bool_)
        if self.data.flip:
            flip = toss_coin(draw(_FLIP)).astype(np.bool_)
        if self.data.augment == "random-resized-crop":
            return _draw_resized_crops(
                self.data, draw, heights.astype(np.int64), widths.astype(np.int64), flip
            )
        side = np.full(len(indices), self.data.image_size, dtype=np.int64)
        if self.data.augment == "none":
            zero = np.zeros(len(indices), dtype=np.int64)
            return Views(zero, zero, side, side, flip)
        places = np.int64(2 * self.data.padding + 1)
        top = below(draw(_TOP), places) - self.data.padding
        left = below(draw(_LEFT), places) - self.data.padding
        return Views(top, left, side, side, flip)

    def transforms(self, epoch: int, indices: Indices, copies: Indices | None = None) -> Transforms | None:
        """Draw the operations of `data.transforms` on each sample; None if the recipe has none.

        Args:
            epoch: counted from 0.
            indices: (n,) rows of the manifest, in any order.
            copies: see `views`.
        """
        if not self.data.transforms:
            return None

        def draw_of_step(step: int) -> Draw:
            first = _TRANSFORMS + step * FIELDS
            return lambda field: random_keys(self.seed, epoch, indices, first + field, copies)

        return draw_transforms(self.data.transforms, self.data.image_size, draw_of_step)


def _draw_resized_crops(data: DataRecipe, draw: Draw, heights: Pixels, widths: Pixels, flip: Mask) -> Views:
    """Draw windows of random area and aspect (Szegedy et al., 2015) as torchvision draws them.

    A picture gets the first of ten windows that fits into it, else the largest centred one.

    Args:
        data: ranges of areas and aspects.
        draw: returns the keys of a field.
        heights, widths: (n,) size of each picture as the loader decodes it, in pixels.
        flip: (n,) True for a mirrored window.
    """

    def fits(width: Pixels, height: Pixels) -> Mask:
        return (width > 0) & (width <= widths) & (height > 0) & (height <= heights)

    every = np.ones(len(flip), dtype=np.bool_)
    width, height = draw_rectangles(draw, _TRIES, data, heights * widths, every, fits)
    is_missing = width == 0
    largest_height, largest_width = _find_largest_window(heights, widths, data.ratio)
    height = np.where(is_missing, largest_height, height)
    width = np.where(is_missing, largest_width, width)
    rows_beside = heights - height
    columns_beside = widths - width
    top = np.where(is_missing, rows_beside // 2, below(draw(_TOP), rows_beside + 1))
    left = np.where(is_missing, columns_beside // 2, below(draw(_LEFT), columns_beside + 1))
    return Views(top, left, height, width, flip)


def random_keys(seed: int, epoch: int, indices: Indices, field: int, copies: Indices | None = None) -> Keys:
    """Compute a random 64-bit number for each sample, as a function of the arguments alone.

    Args:
        seed: seed of the run.
        epoch: counted from 0.
        indices: (n,) rows of the manifest.
        field: number of the use; numbers of different fields are independent.
        copies: (n,) number of each sample among those of its row, from 0; None: 0 for all.

    Returns:
        (n,) uniform over all 64-bit words.
    """
    counter = indices.astype(np.uint64) * np.uint64(_GOLDEN) + _mix_state(seed, epoch, field)
    if copies is not None:
        counter += _mix(copies.astype(np.uint64))  # 0 for copy 0
    return _mix(_mix(counter))


@lru_cache(maxsize=1024)  # an epoch asks for its states again with each batch
def _mix_state(seed: int, epoch: int, field: int) -> Keys:
    """Mix seed, epoch and field into one (1,) word, one after the other.

    Their sum would be the same for seed 1 and epoch 0 as for seed 0 and epoch 1.
    """
    state = np.zeros(1, dtype=np.uint64)
    for word in (seed, epoch, field):
        state = _mix(state + np.uint64((_GOLDEN + word) & _WORD))
    return state


def worker_share(size: int, rank: int, world_size: int) -> slice:
    """Return the contiguous slice of a global batch that belongs to one worker.

    Args:
        size: samples in the global batch.
        rank: number of the worker, from 0.
        world_size: number of workers.

    >>> [worker_share(10, rank, 3) for rank in range(3)]
    [slice(0, 3, None), slice(3, 6, None), slice(6, 10, None)]
    """
    return slice(size * rank // world_size, size * (rank + 1) // world_size)


def _mix(x: Keys) -> Keys:
    """Scramble each 64-bit word by the output function of SplitMix64."""
    x = (x ^ (x >> np.uint64(30))) * np.uint64(_MIX_1)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(_MIX_2)
    return x ^ (x >> np.uint64(31))


def _find_largest_window(high: Pixels, wide: Pixels, ratio: tuple[float, float]) -> tuple[Pixels, Pixels]:
    """Return height and width of the largest window within each picture whose aspect is within ``ratio``."""
    aspect = wide / high
    height = np.where(aspect < ratio[0], np.rint(wide / ratio[0]), high)
    width = np.where(aspect > ratio[1], np.rint(high * ratio[1]), wide)
    # At least one pixel, where the picture is thinner than every aspect allows.
    return np.clip(height, 1, high).astype(np.int64), np.clip(width, 1, wide).astype(np.int64)
