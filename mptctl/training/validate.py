"""Measures error and flips on the validation part, by which the best checkpoint is chosen."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mpt_kernels.correct import is_top1_correct
from mptctl.data.loading.base import Loader
from mptctl.evaluation.rates import negative_flips
from mptctl.inference.forward import forward
from mptctl.machine.device import Precision
from mptctl.models.records import NOT_VALIDATED, Validation
from mptctl.names import Progress, Role, tell_nobody
from mptctl.teachers.source import TeacherSource


class Validator:
    """Measures models on the validation part; computes the old model's predictions in the first pass only.

    Args:
        loader: of the validation part, in its fixed order.
        num_old: number of old classes.
        teachers: gives the old model's logits; None without an old model.
        precision: of the measured model's forward pass.
    """

    def __init__(
        self, loader: Loader, num_old: int, teachers: TeacherSource | None, precision: Precision = "fp32"
    ) -> None:
        self.loader = loader
        self._num_old = num_old
        self.teachers = teachers
        self._precision = precision
        self._old_right: Tensor | None = None

    @torch.no_grad()
    def run(self, model: nn.Module, progress: Progress = tell_nobody) -> Validation:
        """Count errors and flips of a model, and leave it in evaluation mode.

        Args:
            model: on the loader's device.
            progress: told after each batch how many pictures are done.

        Returns:
            The counts; without flips where there is no old model. NOT_VALIDATED if the loader gives no batch.
        """
        right, old_right, is_old, done = [], [], [], 0
        for batch, (logits,) in forward([model], self.loader, self._precision):
            done += len(batch.labels)
            progress("validation pictures", done, self.loader.plan.num_samples)
            right.append(is_top1_correct(logits, batch.labels))
            is_old.append(batch.labels < self._num_old)
            if self.teachers is not None and self._old_right is None:
                old_logits = self.teachers.logits(batch, {Role.OLD})[Role.OLD]
                old_right.append(is_top1_correct(old_logits, batch.labels))
        if not right:
            return NOT_VALIDATED
        new, old_class = torch.cat(right), torch.cat(is_old)
        if old_right:
            self._old_right = torch.cat(old_right)
        flips = None if self._old_right is None else negative_flips(self._old_right, new) & old_class
        return Validation(
            errors=int((~new).sum()),
            samples=len(new),
            errors_old=int((~new & old_class).sum()),
            samples_old=int(old_class.sum()),
            flips=None if flips is None else int(flips.sum()),
        )
