"""Records in checkpoints and ``metrics.jsonl``: validation counts, adjustments, k by epoch."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from pydantic import Field

from mptctl.files import Model


class Adjustment(Model):
    """The shifts and the temperature that `adjust` folded into a classifier, and what they were chosen by."""

    adjusted: str = Field(description="name of the run whose model was adjusted")
    digest: str = Field(description="of that model's checkpoint")
    old: str | None = Field(
        None, description="name of the old model; null where only a temperature was fitted"
    )
    kind: Literal["none", "bias", "per-class"] = Field(
        description="bias: one shift for all new classes; per-class: one for each; none: no shift"
    )
    biases: dict[str, float] = Field(
        description="what was taken off the logit of each new class; empty: nothing"
    )
    temperature: float = Field(description="what the logits were divided by afterwards; 1 leaves them")
    max_nfr: float | None = Field(None, description="limit that the bound of NFR met, a fraction")
    max_er_increase: float | None = Field(
        None, description="limit that the rise of the error met, a fraction"
    )
    confidence: float = Field(description="level of the two-sided interval whose upper end is the bound")
    nfr: float | None = Field(None, description="on the validation samples that chose, a fraction")
    bound: float | None = Field(None, description="upper bound of NFR there; it holds where max_nfr is set")
    flips: int | None = Field(None, description="negative flips there")
    samples_old: int | None = Field(None, description="those of old classes; of per-class shifts one half")


class BiasEpoch(Model):
    """One finished epoch."""

    k: float = Field(description="bias on the logits of new classes in it")
    flips: int = Field(description="negative flips on validation samples of old classes after it")


class BiasPath(Model):
    """The record that the next k is worked out from."""

    left: tuple[float, ...] = Field(
        description="for each epoch of the run, the part of the flips after it that the end is expected to "
        "leave"
    )
    epochs: tuple[BiasEpoch, ...] = Field((), description="those that are finished")


class Validation(Model):
    """Counts on validation samples, with the rates that follow from them; without samples there are none."""

    errors: int = Field(0, description="wrong predictions on samples of the classes that the model knows")
    samples: int = Field(0, description="these samples")
    errors_old: int = Field(0, description="wrong predictions on samples of old classes")
    samples_old: int = Field(0, description="these samples")
    flips: int | None = Field(None, description="old samples that the old model alone gets right (Eq. 7)")

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
        """Rebuild the record from what `figures()` returned.

        An earlier version wrote rates only. Each was a count over its samples in double precision, so rate
        times samples, rounded, is the count.

        Args:
            figures: as a checkpoint or a line of ``metrics.jsonl`` has them, other keys among them.
            samples, samples_old: numbers of samples in the validation part, used where counts are missing.
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
