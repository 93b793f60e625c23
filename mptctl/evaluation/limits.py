"""Limits of a release: the kinds of limits that can be set, and the values that are set."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Literal, Self, TypedDict

from pydantic import Field, model_validator

from mptctl.errors import UsageError, option, some
from mptctl.evaluation.rates import Counts, Interval
from mptctl.evaluation.statistics import (
    er_increase,
    er_increase_interval,
    exact_interval,
    expected_flips,
    relative_nfr_interval,
    sequence_interval,
)
from mptctl.files.explained import shown
from mptctl.files.model import Typed

Looks = Literal["once", "any"]


@dataclass(frozen=True)
class LimitKind:
    """A limit that can be set.

    Attributes:
        key: the field of `Limits`; with dashes, the option.
        title: the name of the rate in sentences.
        short: the same in few words.
        meaning: the rate in words, with its unit, for comments in a gate file.
        rate: the field of `Rates` that is limited; empty for a difference of two rates.
        value: computes the rate, a fraction, from the flip table and the number of flips that count; None
            where the rate is not defined. Waived flips do not count as flips, but stay in the flip table, and
            so in every denominator.
        interval: computes the interval of the rate from the same two and a level, where the rate is defined.
        of: the denominator: how many samples of a flip table can be such flips; None where the rate is no
            share of samples.
        low: smallest limit that can be set, a fraction.
        high: largest limit that can be set, a fraction; None where that is the number of samples.
    """

    key: str
    title: str
    short: str
    meaning: str
    rate: str
    value: Callable[[Counts, int], float | None]
    interval: Callable[[Counts, int, float], Interval | None]
    of: Callable[[Counts], int] | None = None
    low: int = 0
    high: int | None = 1

    @property
    def name(self) -> str:
        """The name in the report, with dashes."""
        return self.key.replace("_", "-")

    @property
    def counts_flips(self) -> bool:
        """True where the limited rate counts flips, so that waivers lower it."""
        return self.of is not None

    @property
    def is_share(self) -> bool:
        """True where the limited rate is a share of samples that come one by one, as coins are tossed."""
        return self.of is not None and self.high is not None

    def interval_of(self, counts: Counts, flips: int, confidence: float, looks: Looks) -> Interval | None:
        """Compute the interval of the rate, where it is defined: of one look, or of any number of looks."""
        if looks == "any" and self.of is not None:
            return sequence_interval(flips, self.of(counts), confidence)
        return self.interval(counts, flips, confidence)

    def unit(self, value: float = 0) -> str:
        """The unit after a value: ``%`` of a rate, ``point`` or ``points`` of a difference of rates."""
        points = "point" if value == 1 else "points"
        return "%" if self.rate else points

    def written(self, limit: float, place: str = "") -> str:
        """A limit, a fraction, as it was written: the option and percent, or the key after its place.

        Args:
            limit: a fraction.
            place: of the key in a gate file; empty: the limit is of an option.
        """
        key = f"{place}{self.key}" if place else option(self.name)
        return f"{key} {100 * limit:g}"

    def check_range(self, limit: float, place: str = "") -> None:
        """Raise UsageError where every rate keeps a limit, or none can; arguments as `written`."""
        if self.high is None:
            if not 0 <= limit < float("inf"):
                raise UsageError(f"{self.written(limit, place)}: must be finite and at least 0")
        elif not self.low <= limit <= self.high:
            raise UsageError(
                f"{self.written(limit, place)}: must lie between {100 * self.low} and {100 * self.high}"
            )

    def check_reach(self, limit: float, samples: int, place: str = "") -> None:
        """Raise UsageError where no rate of so many samples can exceed a limit; see `written`."""
        if self.high is None and limit > samples:
            raise UsageError(
                f"{self.written(limit, place)}: {self.title} of {samples:,} samples is never above "
                f"{100 * samples:,} %; set a limit below that"
            )


LIMITS = (
    LimitKind(
        "max_nfr",
        "NFR",
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
        "lost",
        "negative flips, % of the old model's right predictions",
        "lost",
        lambda table, flips: flips / table.old_right if table.old_right else None,
        lambda table, flips, level: exact_interval(flips, table.old_right, level),
        of=lambda table: table.old_right,
    ),
    LimitKind(
        "max_rel_nfr",
        "Rel-NFR",
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
        "error on old classes",
        "change of error, points",
        "",
        lambda table, flips: er_increase(table),
        lambda table, flips, level: er_increase_interval(table, level),
        low=-1,
    ),
)


def check_level(level: float | None, name: str) -> None:
    """Raise UsageError for an interval level, set by an option or a key `name`, outside [0.5, 1)."""
    # Below one half the upper bound comes ever closer to the value itself, and promises nothing.
    if level is not None and not 0.5 <= level < 1:
        raise UsageError(f"{name} {level:g}: must be at least 0.5 and below 1, such as 0.95")


class LimitValues(Typed):
    """A value for each kind of limit; null sets no limit."""

    max_nfr: float | None = Field(default=None, description="largest NFR")
    max_lost: float | None = Field(default=None, description="largest part of right predictions lost")
    max_rel_nfr: float | None = Field(default=None, description="largest Rel-NFR")
    max_er_increase: float | None = Field(
        default=None, description="largest increase of error on old classes"
    )

    def given(self) -> list[tuple[LimitKind, float]]:
        """The limits that are set, each as its kind and its value, in the order in which they are checked."""
        limits = [(kind, getattr(self, kind.key)) for kind in LIMITS]
        return [(kind, limit) for kind, limit in limits if limit is not None]


def refuse_unknown_classes(
    limits: LimitValues, never_predicted: Collection[str], remedy: str = "", place: str = ""
) -> None:
    """Refuse limits that may be easier to keep where labels that OLD never predicts count as new.

    These are limits on Rel-NFR, and on an error that must fall. All others are no easier to keep: no sample
    of such a label can flip, or be wrong now and right before.

    Args:
        limits: fractions.
        never_predicted: the labels; empty where OLD says which classes it knows.
        remedy: how the old classes are given; empty: by the flag.
        place: as for `LimitKind.written`.

    Raises:
        UsageError: there are such labels, and such a limit.
    """
    for kind, limit in limits.given():
        if never_predicted and (kind.high is None or limit < 0):
            raise UsageError(
                f"{kind.written(limit, place)}: OLD does not say which classes it knows, and never predicts "
                f"{some(map(shown, sorted(never_predicted)))}, without which this limit may be easier to "
                f"keep; {remedy or 'give ' + option('old-classes')}"
            )


class LimitArguments(TypedDict, total=False):
    """`LimitValues` as keyword arguments of a Python function."""

    max_nfr: float | None
    max_lost: float | None
    max_rel_nfr: float | None
    max_er_increase: float | None


class Limits(LimitValues):
    """The limits of a release, in fractions, and how they decide; null sets no limit.

    Raises:
        UsageError: a limit that every rate keeps or that no rate can keep, or a confidence outside [0.5, 1).
    """

    confidence: float | None = Field(
        default=None,
        description="level of the two-sided interval that decides; null: the value itself decides",
    )
    looks: Looks = Field(
        default="once",
        exclude_if=lambda looks: looks == "once",
        description="any: the interval holds after every number of samples or labels; not there: once",
    )
    allow_identical: bool = Field(default=False, description="OLD and NEW may be the same model")
    allow_unfinished: bool = Field(default=False, description="models of unfinished runs may pass")

    @model_validator(mode="after")
    def _check_ranges(self) -> Self:
        """Raise UsageError where the confidence or a limit is out of its range."""
        check_level(self.confidence, option("confidence"))
        for kind, limit in self.given():
            kind.check_range(limit)
            if self.looks == "any" and not kind.is_share:
                raise UsageError(
                    f"{option('looks')} any: {option(kind.name)} has no interval that may be looked at again "
                    f"and again; limit {option('max-nfr')} or {option('max-lost')}"
                )
        if self.looks == "any" and self.confidence is None and self.given():
            raise UsageError(
                f"{option('looks')} any: is of the interval that decides; give {option('confidence')}, such "
                "as 0.95"
            )
        return self
