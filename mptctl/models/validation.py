"""Counts on validation samples and the rates that follow, by the names that checkpoints and metrics give them."""

from __future__ import annotations

from collections.abc import Mapping

from pydantic import Field

from mptctl.files import Model


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
        """The counts that `figures` wrote.

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
