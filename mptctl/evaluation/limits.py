"""Limits of a release: the rates that may have one, and the limits that are set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Self, TypedDict

from pydantic import Field, model_validator

from mptctl.errors import UsageError
from mptctl.evaluation.rates import Counts, Interval
from mptctl.evaluation.statistics import (
    er_increase,
    error_difference,
    exact_interval,
    expected_flips,
    relative_nfr_interval,
)
from mptctl.files.model import Typed


@dataclass(frozen=True)
class LimitKind:
    """A limit that can be set.

    Attributes:
        key: its field of `Limits`; with dashes, its option.
        title: what is limited, in a sentence.
        meaning: of its value, with its unit; a gate file's comment.
        rate: the field of `Rates` that it limits; empty where it limits a difference of two rates.
        value: that rate of a flip table and the flips that count, a fraction; None where it is not defined.
            Flips that are waived do not count, and are samples, right predictions before and errors now all
            the same.
        interval: its interval at a level, where it is defined.
        of: the samples that may be such flips; None where the rate is no share of samples.
        low: smallest limit that means anything, a fraction.
        high: largest one; None where that is the number of samples.
    """

    key: str
    title: str
    meaning: str
    rate: str
    value: Callable[[Counts, int], float | None]
    interval: Callable[[Counts, int, float], Interval | None]
    of: Callable[[Counts], int] | None = None
    low: int = 0
    high: int | None = 1

    @property
    def name(self) -> str:
        """Its name in the report."""
        return self.key.replace("_", "-")

    @property
    def of_flips(self) -> bool:
        """True where it counts flips, of which those that are waived are taken off."""
        return self.of is not None

    def unit(self, value: float = 0) -> str:
        """The unit of a value: percent of a rate, points of a difference of rates."""
        return "%" if self.rate else "point" if value == 1 else "points"

    def check_range(self, limit: float) -> None:
        """UsageError where no rate of any samples can reach the limit, or none can keep to it."""
        if self.high is None:
            if not 0 <= limit < float("inf"):
                raise UsageError(f"--{self.name} {100 * limit:g}: must be finite and at least 0")
        elif not self.low <= limit <= self.high:
            raise UsageError(
                f"--{self.name} {100 * limit:g}: must lie between {100 * self.low} and {100 * self.high}"
            )

    def check_reach(self, limit: float, samples: int) -> None:
        """UsageError where no rate of so many samples exceeds the limit."""
        if self.high is None and limit > samples:
            raise UsageError(
                f"--{self.name} {100 * limit:g}: {self.title} of {samples:,} samples is never above "
                f"{100 * samples:,} %; set a limit below that"
            )


LIMITS = (
    LimitKind(
        "max_nfr",
        "NFR",
        "negative flips, % of all samples",
        "nfr",
        lambda table, flips: flips / table.total,
        lambda table, flips, level: exact_interval(flips, table.total, level),
        of=lambda table: table.total,
    ),
    LimitKind(
        "max_lost",
        "share of right predictions lost",
        "negative flips, % of the old model's right predictions",
        "lost",
        lambda table, flips: flips / table.old_right if table.old_right else None,
        lambda table, flips, level: exact_interval(flips, table.old_right, level),
        of=lambda table: table.old_right,
    ),
    LimitKind(
        "max_rel_nfr",
        "Rel-NFR",
        "negative flips, % of what independent errors would flip",
        "rel_nfr",
        lambda table, flips: flips / expected_flips(table) if expected_flips(table) else None,
        lambda table, flips, level: relative_nfr_interval(table, level, flips),
        high=None,  # at most n: one flip, and no other right answer before nor wrong one now
        of=lambda table: table.new_wrong,
    ),
    LimitKind(
        "max_er_increase",
        "error increase",
        "change of error, points",
        "",
        lambda table, flips: er_increase(table),
        lambda table, flips, level: error_difference(table, level),
        low=-1,
    ),
)


class LimitValues(Typed):
    """A value of each limit; null sets none."""

    max_nfr: float | None = Field(default=None, description="largest NFR")
    max_lost: float | None = Field(default=None, description="largest part of right predictions lost")
    max_rel_nfr: float | None = Field(default=None, description="largest Rel-NFR")
    max_er_increase: float | None = Field(
        default=None, description="largest increase of error on old classes"
    )

    def given(self) -> list[tuple[LimitKind, float]]:
        """The limits that are set, in the order in which they are checked."""
        limits = [(kind, getattr(self, kind.key)) for kind in LIMITS]
        return [(kind, limit) for kind, limit in limits if limit is not None]


# Chosen: below a tenth of a percent a fraction may have been given where percent was asked for.
SMALL = 0.001


def small_limits(limits: LimitValues, place: str = "") -> list[str]:
    """Remarks on limits, given in percent, that may have been meant as fractions.

    Args:
        limits: fractions.
        place: in a gate file; empty: flags.

    >>> small_limits(LimitValues(max_nfr=0.0002, max_lost=0.02))
    ['--max-nfr 0.02: is in percent, so that it is 2 of 10,000; if 2 % was meant, give 2']
    """
    return [
        f"{place + kind.key if place else '--' + kind.name} {100 * limit:g}: is in percent, so that it is "
        f"{1e4 * limit:g} of 10,000; if {1e4 * limit:g} % was meant, give {1e4 * limit:g}"
        for kind, limit in limits.given()
        if kind.rate and 0 < limit < SMALL
    ]


class LimitArguments(TypedDict, total=False):
    """The same as arguments of a function in Python."""

    max_nfr: float | None
    max_lost: float | None
    max_rel_nfr: float | None
    max_er_increase: float | None


class Limits(LimitValues):
    """The limits of a release, in fractions; null sets no limit.

    Raises:
        UsageError: a limit that no rate can reach or none can keep to, or a confidence outside [0.5, 1).
    """

    confidence: float | None = Field(
        default=None,
        description="level of the two-sided interval that decides; null: the value itself decides",
    )
    undecided: Literal["fail", "pass"] = Field(
        default="fail", description="what an undecided limit does to `passed`"
    )
    allow_identical: bool = Field(default=False, description="OLD and NEW may be the same model")
    allow_unfinished: bool = Field(default=False, description="models of unfinished runs may pass")

    @model_validator(mode="after")
    def _in_range(self) -> Self:
        # Below one half the "upper" bound would come ever closer to the value itself, and promise nothing.
        if self.confidence is not None and not 0.5 <= self.confidence < 1:
            raise UsageError(
                f"--confidence {self.confidence:g}: must be at least 0.5 and below 1, such as 0.95"
            )
        for kind, limit in self.given():
            kind.check_range(limit)
        return self
