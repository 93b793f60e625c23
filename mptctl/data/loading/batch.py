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
        epoch: of the plan, counted from 0.
        position: where the first sample stands in the epoch's order, over all workers; the others follow it.
    """

    images: Tensor
    labels: Tensor
    index: Tensor
    epoch: int = 0
    position: int = 0

    def parts(self, count: int) -> list[Batch]:
        """The batch in so many parts, each of which knows where it stands."""
        if count == 1:
            return [self]
        parts, position = [], self.position
        for images, labels, index in zip(
            self.images.tensor_split(count),
            self.labels.tensor_split(count),
            self.index.tensor_split(count),
            strict=True,
        ):
            parts.append(Batch(images, labels, index, self.epoch, position))
            position += len(index)
        return parts
