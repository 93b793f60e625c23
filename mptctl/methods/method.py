"""A method: a loss with its settings, its teachers, and the epochs in which it is on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from mpt_kernels import mpt_loss
from mpt_kernels.reference import inverse_normalizer, is_top1_correct, mpt_rows
from mpt_kernels.types import LossSettings, RowLosses
from mptctl.errors import UsageError
from mptctl.methods.topk import topk_lm_distance
from mptctl.recipe import OptimRecipe


@dataclass(frozen=True)
class Method:
    """A loss with its settings.

    Attributes:
        name: as in the recipe.
        needs_old: the old model's logits are wanted.
        needs_ref: the reference's logits are wanted; with several references, their mean.
        settings: of the fused loss.
        k: bias of the new classes.
        top_k: match only so many logits of each teacher, outside the fused loss; None: all, inside it.
        start_epoch: first epoch, counted from 0, with the teachers; before it, plain cross-entropy.
    """

    name: str
    needs_old: bool
    needs_ref: bool
    settings: LossSettings
    k: float = 0.0
    top_k: int | None = None
    start_epoch: int = 0

    def is_on(self, epoch: int) -> bool:
        """Whether all of the method is at work in an epoch, counted from 0."""
        return epoch >= self.start_epoch

    def refuse_if_never_on(self, optim: OptimRecipe, steps_per_epoch: int) -> None:
        """Refuse a run that ends before the method begins: its result would be that of another method.

        Args:
            optim: how long the run is.
            steps_per_epoch: optimizer steps of one epoch.

        Raises:
            UsageError: names the key that ends the run too early, and the value that it needs.
        """
        too_short = None
        if not self.is_on(optim.epochs - 1):
            too_short = ("optim.epochs", optim.epochs, self.start_epoch + 1)
        elif optim.max_steps is not None and optim.max_steps <= self.start_epoch * steps_per_epoch:
            too_short = ("optim.max_steps", optim.max_steps, self.start_epoch * steps_per_epoch + 1)
        if too_short is not None:
            key, value, least = too_short
            raise UsageError(
                f"{key} {value}: the run ends before {self.name} begins to distil, in epoch {self.start_epoch + 1} "
                f"(method.elodi_start_epoch {self.start_epoch}, counted from 0); set {key} to at least {least}"
            )

    def for_epoch(self, epoch: int) -> Method:
        """The method as it is in one epoch: teachers that join later are left out before."""
        if self.is_on(epoch):
            return self
        plain = self.settings._replace(distance=None, ce_focal_weight=0.0)
        return replace(self, needs_old=False, needs_ref=False, settings=plain, top_k=None, start_epoch=0)

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
            Scalars: ``loss``, the sum of ``ce``, and of ``fd_old`` and ``fd_ref`` where the method has them, each
            as it enters the loss and averaged over the batch.

        Raises:
            ValueError: logits of a teacher that the method needs are missing, or shapes do not fit.
        """
        old_logits, ref_logits = self._wanted(old_logits, ref_logits)
        rows = self._rows(logits, target, old_logits, ref_logits)
        over = inverse_normalizer(None, target, self.settings.ignore_index, rows.ce.dtype)
        return loss_terms(rows, over)

    def value_and_grad(
        self,
        logits: Tensor,
        target: Tensor,
        old_logits: Tensor | None = None,
        ref_logits: Tensor | None = None,
        normalizer: float | Tensor | None = None,
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Loss, terms, right answers and the gradient at once: what the training loop uses.

        Args:
            logits, target, old_logits, ref_logits: as in a call.
            normalizer: what sums over rows are divided by; None is the number of valid rows.

        Returns:
            The terms of a call, detached, with the counts ``correct`` (of the student) and, where the teacher is
            given, ``correct_old`` and ``correct_ref``; and d loss / d logits: (N, C) in the logits' type.

        Raises:
            ValueError: as in a call.
        """
        old_logits, ref_logits = self._wanted(old_logits, ref_logits)
        if self.top_k is None:
            out = mpt_loss(
                logits,
                target,
                old_logits,
                ref_logits,
                k=self.k,
                normalizer=normalizer,
                **_keywords(self.settings),
            )
            counts = {_COUNT[role]: count for role, count in out.correct.items()}
            return {"loss": out.loss, **out.terms, **counts}, out.grad
        leaf = logits.detach().requires_grad_()
        with torch.enable_grad():
            rows = self._rows(leaf, target, old_logits, ref_logits)
            over = inverse_normalizer(normalizer, target, self.settings.ignore_index, rows.ce.dtype)
            terms = loss_terms(rows, over)
            (grad,) = torch.autograd.grad(terms["loss"], leaf)
        answers = {"student": logits, "old": old_logits, "ref": ref_logits}
        valid = target != self.settings.ignore_index
        counts = {
            _COUNT[role]: (is_top1_correct(answer.detach(), target) & valid).sum()
            for role, answer in answers.items()
            if answer is not None
        }
        return {name: term.detach() for name, term in terms.items()} | counts, grad

    def _rows(
        self, logits: Tensor, target: Tensor, old_logits: Tensor | None, ref_logits: Tensor | None
    ) -> RowLosses:
        if self.top_k is None:
            return mpt_rows(logits, target, old_logits, ref_logits, self.k, self.settings)
        s = self.settings
        valid = target != s.ignore_index
        rows = mpt_rows(logits, target, None, None, self.k, s._replace(distance=None))
        z = logits.to(rows.ce.dtype).where(valid.unsqueeze(1), 0.0)
        matched: list[Tensor | None] = []
        for teacher, lam, width in ((old_logits, s.lam_old, s.num_old), (ref_logits, s.lam_ref, z.shape[1])):
            if teacher is None or lam == 0.0:
                matched.append(None)
                continue
            distance = topk_lm_distance(z[:, :width], teacher.to(z.dtype), self.top_k)
            matched.append(lam * distance.where(valid, 0.0))
        return RowLosses(rows.ce, matched[0], matched[1])

    def _wanted(self, old: Tensor | None, ref: Tensor | None) -> tuple[Tensor | None, Tensor | None]:
        """Teachers that the method needs; a teacher that it does not need changes nothing."""
        for role, needed, given in (("old", self.needs_old, old), ("ref", self.needs_ref, ref)):
            if needed and given is None:
                raise ValueError(f"{self.name} needs {role}_logits")
        return (old if self.needs_old else None), (ref if self.needs_ref else None)


_COUNT = {"student": "correct", "old": "correct_old", "ref": "correct_ref"}


def loss_terms(rows: RowLosses, over: Tensor) -> dict[str, Tensor]:
    terms = {name: row.sum() * over for name, row in rows._asdict().items() if row is not None}
    return {"loss": torch.stack(list(terms.values())).sum(), **terms}


def _keywords(settings: LossSettings) -> dict[str, Any]:
    return settings._asdict()
