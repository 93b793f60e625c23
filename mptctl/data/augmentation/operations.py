"""Applies drawn transforms to pictures: operations on uint8 pixels, and erasing after normalisation.

All loaders call `operate` and `erase`, so that a picture is the same whichever loader brings it.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mptctl.data.augmentation.drawing import OPERATIONS, Operations, Transforms
from mptctl.data.augmentation.pixel_functions import fastest_operation, torchvision_operations
from mptctl.machine.device import copy_to_device


def operate(pictures: Tensor, transforms: Transforms) -> Tensor:
    """Apply the drawn operations to pictures.

    On a CPU each picture is done by itself, in one layout, so that its bits do not depend on its batch. On a
    GPU pictures with the same operation and amount are done together.

    Args:
        pictures: (n, S, S, 3) uint8; left as they are.
        transforms: drawn for these n pictures.

    Returns:
        (n, S, S, 3) uint8.
    """
    if not transforms.operations:
        return pictures
    images = pictures.permute(0, 3, 1, 2).clone(memory_format=torch.contiguous_format)
    for operations in transforms.operations:
        if images.device.type == "cpu":
            for row in np.flatnonzero(operations.kinds).tolist():  # Identity, the first kind, does nothing
                operation = fastest_operation(OPERATIONS[operations.kinds[row]])
                images[row] = operation(images[row], float(operations.amounts[row]), operations.step)
        else:
            operate_in_groups(images, operations)
    return images.permute(0, 2, 3, 1)


def operate_in_groups(images: Tensor, operations: Operations) -> None:
    """Apply one operation to each picture, in place; one call for all pictures with the same one and amount.

    Args:
        images: (n, 3, S, S) uint8, on any device.
        operations: one for each of the n pictures.
    """
    kinds, amounts = operations.kinds, operations.amounts
    for kind, amount in sorted(set(zip(kinds.tolist(), amounts.tolist(), strict=True))):
        if OPERATIONS[kind] == "Identity":
            continue
        rows = np.flatnonzero((kinds == kind) & (amounts == amount))
        rows_there = copy_to_device(torch.from_numpy(rows), images.device)
        operation = torchvision_operations()[OPERATIONS[kind]]
        images[rows_there] = operation(images[rows_there], amount, operations.step)


def erase(pictures: Tensor, transforms: Transforms) -> None:
    """Fill the drawn rectangles of pictures in place: with normal noise, or the step's value.

    Args:
        pictures: (n, S, S, 3) float32, normalised.
        transforms: drawn for these n pictures.
    """
    for erasures in transforms.erasures:
        for row in np.flatnonzero(erasures.boxes[:, 2]).tolist():
            top, left, height, width = erasures.boxes[row].tolist()
            rectangle = pictures[row, top : top + height, left : left + width]
            value = erasures.step.value
            if value is None:
                generator = np.random.Generator(np.random.Philox(int(erasures.keys[row])))
                noise = generator.standard_normal((height, width, 3), dtype=np.float32)
                rectangle.copy_(torch.from_numpy(noise))
                continue
            for channel, level in enumerate(value if isinstance(value, tuple) else (value,) * 3):
                rectangle[..., channel] = level
