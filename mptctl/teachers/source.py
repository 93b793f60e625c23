"""Whatever gives the training loop its teacher logits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from torch import Tensor

from mptctl.data.loading.batch import Batch


@dataclass(frozen=True)
class TeacherLogits:
    """What the teachers say of a batch.

    Attributes:
        old: (B, C_old), or None where no old model is wanted.
        ref: (B, C), the mean of the references, or None.
    """

    old: Tensor | None
    ref: Tensor | None


class TeacherSource(Protocol):
    """Whatever gives the loop its teacher logits: models, or what models said before."""

    digests: dict[str, str]

    def logits(self, batch: Batch, epoch: int, *, old: bool, ref: bool) -> TeacherLogits:
        """Logits of the wanted teachers for a batch of an epoch of the plan."""
        ...
