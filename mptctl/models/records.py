"""Records in checkpoints and ``metrics.jsonl``: validation counts, adjustments, k by epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from mptctl.files import Model


class Adjustment(Model):
    """The shifts and the temperature that `adjust` folded into a classifier, and how they were chosen."""

    adjusted: str = Field(description="name of the run whose model was adjusted")
    digest: str = Field(description="of that model's checkpoint")
    old: str | None = Field(None, description="name of the old model; null if only a temperature was fitted")
    kind: Literal["none", "bias"] = Field(description="bias: one shift for all new classes; none: no shift")
    biases: dict[str, float] = Field(
        description="shift of each new class: a number that was subtracted from its logit; empty: none"
    )
    temperature: float = Field(description="divisor of the shifted logits; 1: no change")
    max_nfr: float | None = Field(None, description="limit that the bound of NFR met, a fraction")
    max_er_increase: float | None = Field(
        None, description="limit that the rise of the error met, a fraction"
    )
    confidence: float = Field(description="level of the two-sided interval whose upper end is the bound")
    nfr: float | None = Field(
        None, description="NFR on the validation samples that chose the shifts, a fraction"
    )
    bound: float | None = Field(None, description="upper bound of that NFR; valid if max_nfr is set")
    flips: int | None = Field(None, description="negative flips on these samples")
    samples_old: int | None = Field(None, description="these samples' number, old classes only")


class BiasEpoch(Model):
    """A finished epoch of a run whose k is moved to keep a flip budget."""

    k: float = Field(description="bias on the logits of new classes in the epoch")
    flips: int = Field(description="negative flips on validation samples of old classes after the epoch")


class BiasPath(Model):
    """The finished epochs, for the k of the next epoch."""

    left: tuple[float, ...] = Field(
        description="for each epoch of the run: flips expected after the last epoch / flips after this epoch"
    )
    epochs: tuple[BiasEpoch, ...] = Field((), description="the finished epochs, in order")


class Validation(Model):
    """Counts on validation samples, and the rates that follow from them; a rate without samples is None."""

    errors: int = Field(0, description="wrong predictions on samples of all classes that the model knows")
    samples: int = Field(0, description="samples of all classes that the model knows")
    errors_old: int = Field(0, description="wrong predictions on samples of old classes")
    samples_old: int = Field(0, description="samples of old classes")
    flips: int | None = Field(
        None,
        description="negative flips (Eq. 7): samples of old classes that only the old model gets right; null "
        "without an old model",
    )

    @property
    def error(self) -> float | None:
        """Error over the classes that the model knows, a fraction; None without samples."""
        return self.errors / self.samples if self.samples else None

    @property
    def error_old(self) -> float | None:
        """Error over the old classes, a fraction; None without samples of them."""
        return self.errors_old / self.samples_old if self.samples_old else None

    @property
    def nfr(self) -> float | None:
        """Negative flips / samples of old classes; None without an old model or without such samples."""
        return None if self.flips is None or not self.samples_old else self.flips / self.samples_old

    def figures(self) -> dict[str, float | int | None]:
        """Rates and counts by their names in checkpoints and ``metrics.jsonl``; None without samples."""
        rates = {"val_error": self.error, "val_error_old": self.error_old, "val_nfr": self.nfr}
        counts = {
            name: getattr(self, field) if self.samples else None for name, field in VALIDATION_COUNTS.items()
        }
        return {**rates, **counts}

    @classmethod
    def from_figures(cls, figures: Mapping[str, float | int | None]) -> Validation:
        """Rebuild the record from what `figures()` returned; `NOT_VALIDATED` if there is no error.

        Args:
            figures: from a checkpoint or a line of ``metrics.jsonl``; other keys are ignored.
        """
        if figures.get("val_error") is None:
            return NOT_VALIDATED
        return cls.model_validate({field: figures.get(name) for name, field in VALIDATION_COUNTS.items()})


# Names of the counts in checkpoints and metrics.jsonl, with the record's fields.
VALIDATION_COUNTS = {f"val_{key}": key for key in Validation.model_fields}
NOT_VALIDATED = Validation.model_validate({})
