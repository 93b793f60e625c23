"""A training method: a loss with its settings, its teachers, and its first epoch."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from mpt_kernels import mpt_loss
from mpt_kernels.correct import count_correct
from mpt_kernels.reference import compute_dtype, invert_normalizer, sum_rows, weigh_rows
from mpt_kernels.types import LossSettings
from mptctl.methods.terms import TermsFunction, mpt_terms
from mptctl.names import KSchedule, Role

# Names of the counts of right predictions in `value_and_grad`, by model. Counts are no part of the loss.
COUNTS = {"student": "correct", "old": "correct_old", "ref": "correct_ref"}


@dataclass(frozen=True, kw_only=True)
class Method:
    """A loss with its settings and its teachers.

    Attributes:
        name: as in the recipe.
        settings: of the loss.
        terms: the loss of each row, by terms, with the weights that they have in it; 0 on ignored rows.
            `mpt_loss` computes those of `mpt_terms` with their gradient in one pass; the gradient of any
            other function is that of autograd.
        teachers: roles of the models whose logits the loss needs; several references give their mean.
        start_epoch: first epoch, counted from 0, in which the method is on.
        before: the method of the epochs before `start_epoch`; None if there are none.
        k_schedule: how k changes over the epochs of a run, up to the settings' k.
    """

    name: str
    settings: LossSettings
    terms: TermsFunction = mpt_terms
    teachers: frozenset[Role] = frozenset()
    start_epoch: int = 0
    before: Method | None = None
    k_schedule: KSchedule = "constant"

    def for_epoch(self, epoch: int, epochs: int = 1) -> Method:
        """Return the method of one epoch of a run: `before` until `start_epoch`, then with the epoch's k.

        Args:
            epoch: counted from 0.
            epochs: number of epochs of the whole run, over which k changes.
        """
        if self.before is not None and epoch < self.start_epoch:
            return self.before
        if self.k_schedule == "constant":
            return self
        done = min(1.0, epoch / max(1, epochs - 1))
        fraction = done if self.k_schedule == "linear-from-zero" else 1.0 - done
        return replace(self, settings=self.settings._replace(k=fraction * self.settings.k))

    def __call__(
        self,
        logits: Tensor,
        target: Tensor,
        old_logits: Tensor | None = None,
        ref_logits: Tensor | None = None,
    ) -> dict[str, Tensor]:
        """Compute the loss and its terms, differentiable in the logits.

        Args:
            logits: (N, C) of the student, old classes first; the bias is added here.
            target: (N,) int64; rows with label -100 are ignored.
            old_logits: (N, C_old), for methods that need the old model.
            ref_logits: (N, C), for methods that need the reference.

        Returns:
            Scalars by name: ``loss``, and its addends: ``ce`` and, with the teachers that the method has,
            ``fd_old`` and ``fd_ref``; those of a method of one's own have its names. All are averaged over
            the rows that are not ignored.

        Raises:
            ValueError: logits of a teacher that the method needs are missing, or shapes do not fit.
        """
        rows = self.terms(logits, target, *self.select_teachers(old_logits, ref_logits), self.settings)
        loss, terms = sum_rows(
            rows, invert_normalizer(None, target, self.settings.ignore_index, compute_dtype(logits))
        )
        return {"loss": loss, **terms}

    def value_and_grad(
        self,
        logits: Tensor,
        target: Tensor,
        old_logits: Tensor | None = None,
        ref_logits: Tensor | None = None,
        normalizer: float | Tensor | None = None,
        row_weight: Tensor | None = None,
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Compute loss, terms, counts of right predictions and the gradient at once, for the training loop.

        Args:
            logits, target, old_logits, ref_logits: as for `__call__`.
            normalizer: divisor of sums over rows; None: the number of rows that are not ignored.
            row_weight: (N,) factor of all terms of a row; None: 1. Counts are not weighted.

        Returns:
            First, detached scalars by name: the terms of `__call__`, and the counts ``correct`` (of the
            student) and, for each teacher that is given, ``correct_old`` and ``correct_ref``. Second,
            d loss / d logits: (N, C) in the logits' type.

        Raises:
            ValueError: logits of a teacher that the method needs are missing, or shapes do not fit.
        """
        teachers = self.select_teachers(old_logits, ref_logits)
        if self.terms is mpt_terms:
            out = mpt_loss(
                logits,
                target,
                *teachers,
                normalizer=normalizer,
                row_weight=row_weight,
                **self.settings._asdict(),
            )
            loss, terms, correct, grad = out.loss, out.terms, out.correct, out.grad
        else:
            loss, terms, grad = self._differentiate(logits, target, teachers, normalizer, row_weight)
            correct = count_correct(logits.detach(), target, *teachers, self.settings.ignore_index)
        return {"loss": loss, **terms, **{COUNTS[whose]: count for whose, count in correct.items()}}, grad

    def _differentiate(
        self,
        logits: Tensor,
        target: Tensor,
        teachers: tuple[Tensor | None, Tensor | None],
        normalizer: float | Tensor | None,
        row_weight: Tensor | None,
    ) -> tuple[Tensor, dict[str, Tensor], Tensor]:
        """Compute the detached loss, its terms and the gradient of any terms, by autograd."""
        leaf = logits.detach().requires_grad_()
        with torch.enable_grad():
            rows = weigh_rows(self.terms(leaf, target, *teachers, self.settings), row_weight)
            divisor = invert_normalizer(normalizer, target, self.settings.ignore_index, compute_dtype(logits))
            loss, terms = sum_rows(rows, divisor)
            (grad,) = torch.autograd.grad(loss, leaf)
        return loss.detach(), {name: term.detach() for name, term in terms.items()}, grad

    def mixture_value_and_grad(
        self,
        logits: Tensor,
        target: Tensor,
        other: Tensor,
        weight: Tensor,
        old_logits: Tensor | None,
        ref_logits: Tensor | None,
        normalizer: float | Tensor,
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Compute `value_and_grad` of rows with two labels: the weighted sum of that of each label.

        A row counts as right where the prediction is one of its labels, so the two have to differ.

        Args:
            logits, target, old_logits, ref_logits, normalizer: as for `value_and_grad`.
            other: (N,) second label of each row, or -100 for a row with one label.
            weight: (N,) weight of the first label; the second label has 1 - weight.
        """
        # Both labels in one call, since for a small batch starting an operation costs more than computing it.
        # In the type of the loss, so that only the sum of both gradients is rounded to the logits' type.
        wide = logits.to(compute_dtype(logits))
        twice = torch.cat([wide, wide])
        labels, weights = torch.cat([target, other]), torch.cat([weight, 1 - weight])
        old, ref = (None if each is None else torch.cat([each, each]) for each in (old_logits, ref_logits))
        terms, grad = self.value_and_grad(twice, labels, old, ref, normalizer, weights)
        first, second = grad.chunk(2)
        return terms, (first + second).to(logits.dtype)

    def select_teachers(self, old: Tensor | None, ref: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """Return the logits of the old model and of the reference; None for a teacher that is not needed.

        Raises:
            ValueError: logits of a teacher that the method needs are missing.
        """
        for role, given in ((Role.OLD, old), (Role.REF, ref)):
            if role in self.teachers and given is None:
                raise ValueError(f"{self.name} needs {role}_logits")
        return (old if Role.OLD in self.teachers else None), (ref if Role.REF in self.teachers else None)
