"""The interface by which the training loop gets teacher logits."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from torch import Tensor

from mptctl.data.loading.part import Batch
from mptctl.names import Role


def role_of(name: str) -> Role:
    """The role of a teacher that `TeacherSource.digests` names."""
    return Role(name.rstrip("0123456789"))


class TeacherSource(Protocol):
    """A source of teacher logits: models, or what models said before.

    Attributes:
        digests: of the teachers' weights, by name: ``old`` and ``ref``, or ``ref0``, ``ref1`` and so on.
    """

    digests: dict[str, str]

    def open(self) -> None:
        """Get ready; to be called once, before the first batch is asked for."""
        ...

    def logits(self, batch: Batch, roles: Collection[Role]) -> dict[Role, Tensor]:
        """Logits of teachers for a batch.

        Args:
            batch: pictures that the teachers see too.
            roles: whose logits are wanted; others are not computed.

        Returns:
            (B, C_old) of the old model, (B, C) of the reference, the mean of several; float32. Roles that
            this source does not have are left out.
        """
        ...
