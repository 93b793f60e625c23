"""A batch: pictures on their way to the model."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True)
class Batch:
    """Pictures on their way to the model.

    Attributes:
        images: (B, 3, H, W) normalised, on the loader's device, channels-last in memory.
        labels: (B,) int64, in class order (old classes first), on the loader's device.
        index: (B,) int64, each sample's index in the manifest, on the CPU.
    """

    images: Tensor
    labels: Tensor
    index: Tensor
