"""The types of rates: a rate with its count and interval, the flip table, and a comparison's flip rates."""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, TypeVar

from pydantic import Field

from mptctl.files import Model

Interval = tuple[float, float]
# A boolean array of numpy or a boolean tensor of torch; torch is not imported for it.
Mask = TypeVar("Mask", bound=Any)


def negative_flips(old_right: Mask, new_right: Mask) -> Mask:
    """Mark the negative flips: True where the old model is right and the new model is wrong.

    >>> import numpy as np
    >>> negative_flips(np.array([True, True, False]), np.array([False, True, False])).tolist()
    [True, False, False]
    """
    flips: Mask = old_right & ~new_right
    return flips


class Rate(Model):
    """A rate beside its count, its denominator and its interval."""

    value: float | None = Field(description="count / of; null where `of` is zero")
    count: int = Field(description="numerator")
    of: int | float = Field(description="denominator: samples, or the expected number of flips for Rel-NFR")
    ci95: Interval | None = Field(description="exact 95 % interval; for Rel-NFR a safe one")


class Counts(Model):
    """The four cells of the flip table, over test samples of the old classes."""

    both_right: int = Field(description="old right, new right")
    negative_flips: int = Field(description="old right, new wrong")
    positive_flips: int = Field(description="old wrong, new right")
    both_wrong: int = Field(description="old wrong, new wrong")

    @property
    def total(self) -> int:
        return self.both_right + self.negative_flips + self.positive_flips + self.both_wrong

    @property
    def old_right(self) -> int:
        return self.both_right + self.negative_flips

    @property
    def new_wrong(self) -> int:
        return self.negative_flips + self.both_wrong


class Wording(NamedTuple):
    """The words that reports use for a rate: its title, and its meaning in a few words."""

    title: str
    meaning: str


class Rates(Model):
    """The flip rates with their counts and intervals."""

    nfr: Annotated[Rate, Wording("NFR", "right before, wrong now")] = Field(
        description="negative flips / samples (Eq. 7)"
    )
    pfr: Annotated[Rate, Wording("PFR", "wrong before, right now")] = Field(
        description="positive flips / samples"
    )
    rel_nfr: Annotated[Rate, Wording("Rel-NFR", "flips / expected by chance")] = Field(
        description="negative flips / those of independent errors (Eq. 8)"
    )
    nfi: Annotated[Rate, Wording("NFI", "flips / new errors")] = Field(
        description="negative flips / errors of the new model"
    )
    lost: Annotated[Rate, Wording("lost", "flips / right before")] = Field(
        description="negative flips / right predictions of the old model"
    )
    churn: Annotated[Rate, Wording("churn", "prediction changed")] = Field(
        description="changed predictions, right or wrong / samples"
    )

    def worded(self) -> list[tuple[Wording, Rate]]:
        """Every rate with its words in reports, in the order of the fields."""
        return [(_wording(name), getattr(self, name)) for name in type(self).model_fields]


def _wording(name: str) -> Wording:
    """The words that reports use for the rate in a field, from the field's annotation."""
    (wording,) = (each for each in Rates.model_fields[name].metadata if isinstance(each, Wording))
    return wording
