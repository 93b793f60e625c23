"""The interface through which the training loop gets teacher logits."""

from __future__ import annotations

from collections.abc import Collection
from typing import Protocol

from torch import Tensor

from mptctl.data.loading.part import Batch
from mptctl.names import Role


def role_of(name: str) -> Role:
    """The role of a teacher by its name in `Teachers.digests`.

    >>> role_of("ref1").value
    'ref'
    """
    return Role(name.rstrip("0123456789"))


def names_of_references(count: int) -> list[str]:
    """The names of so many references in `Teachers.digests`.

    >>> names_of_references(1), names_of_references(2)
    (['ref'], ['ref0', 'ref1'])
    """
    return [Role.REF.value] if count == 1 else [f"{Role.REF}{i}" for i in range(count)]


class TeacherSource(Protocol):
    """A source of teacher logits: loaded models, or a cache of their logits."""

    def logits(self, batch: Batch, roles: Collection[Role]) -> dict[Role, Tensor]:
        """Return the logits of some teachers for a batch.

        Args:
            batch: pictures normalised for the student.
            roles: of the teachers to be asked.

        Returns:
            float32 logits by role: (B, C_old) of the old model, (B, C) of the reference (of several
            references, their mean). Roles without a teacher are left out.
        """
        ...
