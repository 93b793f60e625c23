"""A method: a loss with its settings, its teachers, and the epochs in which it is on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mpt_kernels.reference import invert_normalizer, sum_rows
from mpt_kernels.types import LossSettings, RowLosses
from mptctl.names import KSchedule, Role

# Names of the counts of right answers among the terms, by whose they are; these are no part of the loss.
COUNTS = {"student": "correct", "old": "correct_old", "ref": "correct_ref"}


@dataclass(frozen=True, kw_only=True)
class Method(ABC):
    """A loss with its settings, and whose logits it wants.

    Attributes:
        name: as in the recipe.
        settings: of the loss.
        teachers: whose logits are wanted; of several references, their mean.
        start_epoch: first epoch, counted from 0, in which the method is on.
        before: what is minimised until then; None where the method is on from the beginning.
        k_schedule: how the settings' k moves over the epochs of a run.
    """

    name: str
    settings: LossSettings
    teachers: frozenset[Role] = frozenset()
    start_epoch: int = 0
    before: Method | None = None
    k_schedule: KSchedule = "constant"

    def for_epoch(self, epoch: int, epochs: int = 1) -> Method:
        """The method in one epoch of a run: without teachers that join later, and with that epoch's k.

        Args:
            epoch: counted from 0.
            epochs: of the whole run, which the schedule of k spans.
        """
        if self.before is not None and epoch < self.start_epoch:
            return self.before
        if self.k_schedule == "constant":
            return self
        done = min(1.0, epoch / max(1, epochs - 1))
        part = done if self.k_schedule == "linear-from-zero" else 1.0 - done
        return replace(self, settings=self.settings._replace(k=part * self.settings.k))

    def __call__(
        self,
        logits: Tensor,
        target: Tensor,
        old_logits: Tensor | None = None,
        ref_logits: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Loss and its terms, differentiable in the logits.

        Args:
            logits: (N, C) of the student, old classes first, without bias.
            target: (N,) int64; rows of -100 are ignored.
            old_logits: (N, C_old), for methods that need the old model.
            ref_logits: (N, C), for methods that need the reference.

        Returns:
            Scalars: ``loss``, the sum of ``ce``, and of ``fd_old`` and ``fd_ref`` where the method has them,
            each as it enters the loss and averaged over the batch.

        Raises:
            ValueError: logits of a teacher that the method needs are missing, or shapes do not fit.
        """
        rows = self.rows(logits, target, *self.wanted(old_logits, ref_logits))
        loss, terms = sum_rows(
            rows, invert_normalizer(None, target, self.settings.ignore_index, rows.ce.dtype)
        )
        return {"loss": loss, **terms}

    @abstractmethod
    def value_and_grad(
        self,
        logits: Tensor,
        target: Tensor,
        old_logits: Tensor | None = None,
        ref_logits: Tensor | None = None,
        normalizer: float | Tensor | None = None,
        row_weight: Tensor | None = None,
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Loss, terms, right answers and the gradient at once: what the training loop uses.

        Args:
            logits, target, old_logits, ref_logits: as in a call.
            normalizer: what sums over rows are divided by; None is the number of valid rows.
            row_weight: (N,) factor of all terms of a row; None: 1. Counts know none.

        Returns:
            The terms of a call, detached, with the counts ``correct`` (of the student) and, where the teacher
            is given, ``correct_old`` and ``correct_ref``; and d loss / d logits: (N, C) in the logits' type.

        Raises:
            ValueError: as in a call.
        """

    def of_mixture(
        self,
        logits: Tensor,
        target: Tensor,
        other: Tensor,
        weight: Tensor,
        old_logits: Tensor | None,
        ref_logits: Tensor | None,
        normalizer: float | Tensor,
    ) -> tuple[dict[str, Tensor], Tensor]:
        """`value_and_grad` of rows that have two labels: the sum of both labels' own, each times its weight.

        A row counts as right where the answer is one of its labels, so its valid labels have to differ.

        Args:
            logits, target, old_logits, ref_logits, normalizer: as there.
            other: (N,) second label of each row, or the ignored one where it has none.
            weight: (N,) of the first label; the second one's is 1 - weight.
        """
        # As rows of one call, since for a small batch each operation costs more than what it computes.
        twice = torch.cat([logits, logits])
        labels, weights = torch.cat([target, other]), torch.cat([weight, 1 - weight])
        old, ref = (None if each is None else torch.cat([each, each]) for each in (old_logits, ref_logits))
        terms, grad = self.value_and_grad(twice, labels, old, ref, normalizer, weights)
        first, second = grad.chunk(2)
        return terms, first + second

    @abstractmethod
    def rows(
        self, logits: Tensor, target: Tensor, old_logits: Tensor | None, ref_logits: Tensor | None
    ) -> RowLosses:
        """The terms of each row, weighted as they enter the loss, not divided by any normaliser.

        Args:
            logits, target, old_logits, ref_logits: as in a call; None for a teacher that is not wanted.

        Returns:
            (N,) each, 0 on ignored rows, differentiable in the logits.
        """

    def wanted(self, old: Tensor | None, ref: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """Logits of the teachers that the method needs; a teacher that it does not need changes nothing.

        Raises:
            ValueError: those of a teacher that it needs are missing.
        """
        for role, given in ((Role.OLD, old), (Role.REF, ref)):
            if role in self.teachers and given is None:
                raise ValueError(f"{self.name} needs {role}_logits")
        return (old if Role.OLD in self.teachers else None), (ref if Role.REF in self.teachers else None)
