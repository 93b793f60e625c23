"""Validation: error and flips on the samples that `split` held out, which choose the best checkpoint."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mpt_kernels.reference import is_top1_correct
from mptctl.data.loading.base import Loader
from mptctl.names import Role
from mptctl.teachers.source import TeacherSource


@dataclass(frozen=True)
class Validation:
    """Figures on validation samples, as fractions; None where there is no such sample or no old model.

    Attributes:
        error: over the classes that the model knows.
        error_old: over the old classes.
        nfr: negative flips against the old model over samples of old classes (Eq. 7).
    """

    error: float | None
    error_old: float | None
    nfr: float | None


NOT_VALIDATED = Validation(None, None, None)


class Validator:
    """Runs a model over the validation loader; the old model's answers are computed once.

    Args:
        loader: of the validation part, in its fixed order.
        num_old: number of old classes.
        teachers: where the old model's answers come from; None where there is no old model.
        precision: (device type, whether autocast to bfloat16 is on) of the model's forward pass.
    """

    def __init__(
        self, loader: Loader, num_old: int, teachers: TeacherSource | None, precision: tuple[str, bool]
    ) -> None:
        self.loader = loader
        self.num_old = num_old
        self.teachers = teachers
        self.precision = precision
        self._old_right: Tensor | None = None

    @torch.no_grad()
    def run(self, model: nn.Module) -> Validation:
        """Figures of one model, which comes out in evaluation mode."""
        model.eval()
        right, old_right, is_old = [], [], []
        device, reduced = self.precision
        for batch in self.loader.epoch(0):
            with torch.autocast(device, dtype=torch.bfloat16, enabled=reduced):
                logits = model(batch.images)
            right.append(is_top1_correct(logits, batch.labels))
            is_old.append(batch.labels < self.num_old)
            if self.teachers is not None and self._old_right is None:
                answer = self.teachers.logits(batch, {Role.OLD})[Role.OLD]
                old_right.append(is_top1_correct(answer, batch.labels))
        if not right:
            return NOT_VALIDATED
        new, old_class = torch.cat(right), torch.cat(is_old)
        if old_right:
            self._old_right = torch.cat(old_right)
        flips = None if self._old_right is None else self._old_right & ~new & old_class
        return Validation(
            error=_part(~new, torch.ones_like(new)),
            error_old=_part(~new & old_class, old_class),
            nfr=None if flips is None else _part(flips, old_class),
        )


def _part(count: Tensor, of: Tensor) -> float | None:
    total = int(of.sum())
    return int(count.sum()) / total if total else None
