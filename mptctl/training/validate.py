"""Validation: error and flips on the samples that `split` held out, which choose the best checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from pydantic import Field
from torch import Tensor, nn

from mpt_kernels.correct import is_top1_correct
from mptctl.data.loading.base import Loader
from mptctl.files import Model
from mptctl.inference.forward import forward
from mptctl.machine.device import Precision
from mptctl.names import Role
from mptctl.teachers.source import TeacherSource


class Validation(Model):
    """Counts on validation samples, with the rates that follow from them; without samples there are none."""

    errors: int = Field(0, description="wrong predictions on samples of the classes that the model knows")
    samples: int = Field(0, description="these samples")
    errors_old: int = Field(0, description="wrong predictions on samples of old classes")
    samples_old: int = Field(0, description="these samples")
    flips: int | None = Field(None, description="old samples that the old model alone gets right (Eq. 7)")

    @property
    def error(self) -> float | None:
        """Over the classes that the model knows, a fraction."""
        return self.errors / self.samples if self.samples else None

    @property
    def error_old(self) -> float | None:
        """Over the old classes, a fraction."""
        return self.errors_old / self.samples_old if self.samples_old else None

    @property
    def nfr(self) -> float | None:
        """Negative flips / samples of old classes; None without an old model."""
        return None if self.flips is None or not self.samples_old else self.flips / self.samples_old

    def figures(self) -> dict[str, float | int | None]:
        """Rates and counts by the names that checkpoints and ``metrics.jsonl`` give them; n/a is None."""
        rates = {"val_error": self.error, "val_error_old": self.error_old, "val_nfr": self.nfr}
        counts = {
            name: getattr(self, key) if self.samples else None for name, key in VALIDATION_COUNTS.items()
        }
        return {**rates, **counts}

    @classmethod
    def from_figures(
        cls, figures: Mapping[str, float | int | None], samples: int, samples_old: int
    ) -> Validation:
        """What `figures` wrote.

        An earlier version wrote rates alone. Each of them was a count divided by its samples in double precision, so
        that the product with the samples is that count again.

        Args:
            figures: as a checkpoint or a line of ``metrics.jsonl`` has them.
            samples, samples_old: of the validation part, for rates without counts.
        """
        if figures.get("val_error") is None:
            return NOT_VALIDATED
        if figures.get("val_samples") is not None:
            return cls.model_validate({key: figures.get(name) for name, key in VALIDATION_COUNTS.items()})
        nfr = figures.get("val_nfr")
        return cls(
            errors=round((figures.get("val_error") or 0.0) * samples),
            samples=samples,
            errors_old=round((figures.get("val_error_old") or 0.0) * samples_old),
            samples_old=samples_old,
            flips=None if nfr is None else round(nfr * samples_old),
        )


# The counts as they are called beside val_error, val_error_old and val_nfr.
VALIDATION_COUNTS = {f"val_{key}": key for key in Validation.model_fields}
NOT_VALIDATED = Validation.model_validate({})


class Validator:
    """Runs a model over the validation loader; the old model's answers are computed once.

    Args:
        loader: of the validation part, in its fixed order.
        num_old: number of old classes.
        teachers: where the old model's answers come from; None where there is no old model.
        precision: of the model's forward pass.
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
    def run(
        self, model: nn.Module, progress: Callable[[int, int], None] = lambda done, total: None
    ) -> Validation:
        """Figures of one model, which comes out in evaluation mode.

        Args:
            model: on the loader's device.
            progress: told after each batch how many pictures are done, and of how many.
        """
        right, old_right, is_old, done = [], [], [], 0
        for batch, (logits,) in forward([model], self.loader, self._precision):
            done += len(batch.labels)
            progress(done, self.loader.num_samples)
            right.append(is_top1_correct(logits, batch.labels))
            is_old.append(batch.labels < self._num_old)
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
            errors=int((~new).sum()),
            samples=len(new),
            errors_old=int((~new & old_class).sum()),
            samples_old=int(old_class.sum()),
            flips=None if flips is None else int(flips.sum()),
        )
