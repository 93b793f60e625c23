"""A batch, what every loader offers, and the choice of loader with its reason."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

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


class Loader(Protocol):
    """One pass after another over a part of the split, following the epoch plan exactly."""

    name: str  # "resident", "dali-cpu", "dali-mixed" or "threaded"
    reason: str  # why this loader was chosen, one sentence for the log
    steps_per_epoch: int  # global batches of one pass
    num_samples: int  # samples of this part, over all workers

    def epoch(self, epoch: int, start_step: int = 0) -> Iterator[Batch]:
        """Batches of one pass from ``start_step`` on: this worker's slice of each global batch.

        A short last batch is dropped in training, never in evaluation.
        """
        ...

    def close(self) -> None:
        """Stop threads and free memory; safe to call twice."""
        ...
