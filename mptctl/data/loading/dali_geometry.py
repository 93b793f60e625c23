"""Sizes and places by which DALI cuts and scales as torchvision does."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def fitted_size(
    sizes: NDArray[np.int32], resize: int, size: int
) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
    """What `resize_and_crop` does, in numbers.

    Args:
        sizes: (n, 2) height and width of each picture.
        resize: shorter side, in pixels.
        size: side of the crop.

    Returns:
        (n, 2) height and width after resizing, whole numbers, and (n, 2) top and left of the crop.
    """
    short = sizes.min(axis=1, keepdims=True)
    # torchvision cuts the long side's fraction off, and rounds half a pixel of the anchor to even.
    resized = np.where(sizes == short, resize, np.int64(resize) * sizes // short)
    crop = np.rint((resized - size) / 2.0)
    return resized.astype(np.float32), crop.astype(np.int32)


def pad_for_resize(
    stored: NDArray[np.int32], target: NDArray[np.float32], crop: NDArray[np.int32], size: int
) -> dict[str, Any]:
    """Put pictures on a canvas of zeros, so that DALI's filter sees zeros beyond their edges.

    Where a filter reaches over the edge, Pillow and torchvision leave out what is not there and scale the
    rest up; DALI repeats the edge. With zeros there, a factor on the outermost rows makes it the same.

    Args:
        stored: (n, 2) height and width of each picture.
        target: (n, 2) what it is resized to.
        crop: (n, 2) top and left of the crop that is cut out of that.
        size: side of the crop.

    Returns:
        ``canvas`` (n, 2) its top and left, ``canvas_shape`` (n, 2), ``picture`` and ``picture_end`` (n, 2)
        where the picture lies on it, ``row_gain`` (n, S, 1, 1) and ``column_gain`` (n, 1, S, 1).
    """
    # Where a side is not made smaller, repeating the edge and leaving it out are the same.
    margin = np.where(stored > target, np.ceil(stored / target), 0).astype(np.int32)
    rows = crop[:, :, None] + np.arange(size)  # (n, 2, S) place of each row and column
    outermost = (rows == 0) | (rows == target[:, :, None] - 1)
    gain = np.where(outermost, edge_renormalization(stored / target)[:, :, None], 1.0).astype(np.float32)
    return {
        "canvas": -margin,
        "canvas_shape": stored + 2 * margin,
        "picture": margin.astype(np.float32),
        "picture_end": (stored + margin).astype(np.float32),
        "row_gain": np.ascontiguousarray(gain[:, 0, :, None, None]),
        "column_gain": np.ascontiguousarray(gain[:, 1, None, :, None]),
    }


def edge_renormalization(scale: NDArray[np.float64]) -> NDArray[np.float64]:
    """All weights of the triangle filter around the outermost pixel, over those within the picture.

    Args:
        scale: pixels of the stored picture to one of the resized picture; where at most 1, the gain is 1.
    """
    scale = np.maximum(scale, 1.0)
    centre = scale / 2
    reach = int(np.ceil(1.5 * scale.max())) + 1
    places = np.arange(-reach, reach) + 0.5
    weights = np.maximum(0.0, 1 - np.abs(places - centre[..., None]) / scale[..., None])
    return np.where(scale > 1, weights.sum(-1) / (weights * (places > 0)).sum(-1), 1.0)
