"""Does what `data.transforms` draws: operations of torchvision on uint8 pixels, and erasing afterwards.

All loaders call the two functions here, so that a picture is the same whichever of them brings it.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from mptctl.data.augmentation.drawing import OPERATIONS, Operations, Transforms
from mptctl.data.augmentation.pixel_functions import operation_on_cpu, torchvisions_operations


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
        if images.device.type == "cpu":
            for row in np.flatnonzero(operations.kinds).tolist():  # all but Identity, the first
                operation = operation_on_cpu(OPERATIONS[operations.kinds[row]])
                images[row] = operation(images[row], float(operations.amounts[row]), operations.step)
        else:
            operate_in_groups(images, operations)
    return images.permute(0, 2, 3, 1)


def operate_in_groups(images: Tensor, operations: Operations) -> None:
    """Do one operation on each picture, in place; pictures that share operation and amount go in one call.

    Args:
        images: (n, 3, S, S) uint8, on any device.
        operations: (n,).
    """
    kinds, amounts = operations.kinds, operations.amounts
    for kind, amount in sorted(set(zip(kinds.tolist(), amounts.tolist(), strict=True))):
        if OPERATIONS[kind] == "Identity":
            continue
        rows = torch.from_numpy(np.flatnonzero((kinds == kind) & (amounts == amount)))
        if images.device.type == "cuda":
            rows = rows.pin_memory().to(images.device, non_blocking=True)
        images[rows] = torchvisions_operations()[OPERATIONS[kind]](images[rows], amount, operations.step)


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
            value = erasures.step.value
            if value is None:
                noise = np.random.Generator(np.random.Philox(int(erasures.keys[row])))
                normal = noise.standard_normal((height, width, 3), dtype=np.float32)
                window.copy_(torch.from_numpy(normal))
                continue
            for channel, level in enumerate(value if isinstance(value, tuple) else (value,) * 3):
                window[..., channel] = level
