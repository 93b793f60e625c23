"""The release gate: limits in, a verdict that names every limit that failed out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Self

from pydantic import Field, model_validator

from mptctl.errors import GateFailed, UsageError
from mptctl.evaluation.decision import Decision, decide, more_samples
from mptctl.evaluation.rates import Counts, Interval
from mptctl.evaluation.sanity import IDENTICAL, never_right
from mptctl.evaluation.statistics import (
    er_increase,
    error_difference,
    lost_share,
    nfr,
    relative_nfr,
    relative_nfr_interval,
    wilson,
)
from mptctl.files import Model


@dataclass(frozen=True)
class LimitKind:
    """What one limit holds.

    Attributes:
        key: its field of `Limits`; with dashes, its option.
        title: what is limited, in a sentence.
        value: that rate of a flip table, a fraction; None where it is not defined.
        interval: its interval at a level.
        low: smallest limit that means anything, a fraction.
        high: largest one; None where that is the number of samples.
    """

    key: str
    title: str
    value: Callable[[Counts], float | None]
    interval: Callable[[Counts, float], Interval | None]
    low: int = 0
    high: int | None = 1

    @property
    def name(self) -> str:
        """What the report calls it."""
        return self.key.replace("_", "-")

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
                f"{100 * samples:,}%; set a limit below that"
            )


LIMITS = (
    LimitKind("max_nfr", "NFR", nfr, lambda t, level: wilson(t.negative_flips, t.total, level)),
    LimitKind(
        "max_lost",
        "share of right answers lost",
        lost_share,
        lambda t, level: wilson(t.negative_flips, t.old_right, level),
    ),
    # Rel-NFR is at most n: one flip, and no other right answer before nor wrong one now.
    LimitKind("max_rel_nfr", "Rel-NFR", relative_nfr, relative_nfr_interval, high=None),
    LimitKind("max_er_increase", "error increase", er_increase, error_difference, low=-1),
)


class Limits(Model):
    """What a release must keep to, in fractions; null sets no limit.

    Raises:
        UsageError: a limit that no rate can reach or none can keep to, or a confidence outside [0.5, 1).
    """

    max_nfr: float | None = Field(default=None, description="limit on NFR, a fraction")
    max_rel_nfr: float | None = Field(default=None, description="limit on Rel-NFR, a fraction")
    max_er_increase: float | None = Field(
        default=None, description="limit on the error increase, old classes"
    )
    max_lost: float | None = Field(
        default=None, description="limit on the part of right answers that are lost, a fraction"
    )
    confidence: float | None = Field(
        default=None,
        description="level of the two-sided interval that decides; null: the value itself decides",
    )
    undecided: Literal["fail", "pass"] = Field(
        default="fail", description="what an undecided limit does to `passed`"
    )
    allow_identical: bool = Field(default=False, description="one and the same model may pass")
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

    def given(self) -> list[tuple[LimitKind, float]]:
        """The limits that are set, in the order in which they are checked."""
        limits = [(kind, getattr(self, kind.key)) for kind in LIMITS]
        return [(kind, limit) for kind, limit in limits if limit is not None]


class GateCheck(Model):
    """One limit, or a condition that fails every limit: identical, unfinished, old-never-right."""

    name: str = Field(description="the option that set the limit, or the condition")
    limit: float | None = Field(description="a fraction; null for a condition")
    value: float | None = Field(description="the point value")
    tested: float | None = Field(description="what was held against the limit: the value, or its upper bound")
    interval: Interval | None = Field(
        default=None, description="the interval at `confidence`, which decides; null without one"
    )
    answer: Decision = Field(description="pass: all of it is within the limit; fail: all of it is above")
    more_samples: int | None = Field(
        default=None,
        description="undecided: about so many more samples of old classes would decide, at the same rates; "
        "null: no number within reach would",
    )
    passed: bool = Field(description="the answer is pass, or undecided and `undecided` lets it pass")
    message: str = Field(description="the same in a sentence")


class Gate(Limits):
    """May this replacement be released?"""

    passed: bool = Field(default=True, description="true where every limit holds, and where none is set")
    answer: Decision = Field(
        default="pass", description="fail where anything fails, else undecided where anything is"
    )
    failed: list[str] = Field(
        default_factory=list, description="names of the limits and conditions that did not pass"
    )
    checks: list[GateCheck] = Field(
        default_factory=list, description="every condition that failed, and every limit that was set"
    )

    def require_passed(self) -> None:
        """Raise GateFailed where a limit or a condition did not pass; it names each with its option."""
        failed = [check for check in self.checks if not check.passed]
        if failed:
            reasons = [c.message if c.limit is None else f"--{c.name}: {c.message}" for c in failed]
            word = "failed" if self.answer == "fail" else "undecided"
            raise GateFailed(f"gate {word}: {'; '.join(reasons)}")


def check_gate(
    counts: Counts, limits: Limits, *, identical: bool = False, unfinished: Sequence[str] = ()
) -> Gate:
    """Hold a flip table against limits. A rate that is not defined fails its limit.

    With a confidence the two-sided interval answers: pass, fail or undecided (`decide`); without one the value does.

    Args:
        counts: the flip table.
        limits: what it must keep to; without a limit everything passes.
        identical: old and new model are one: nothing was compared, which fails every gate.
        unfinished: sentences on models whose run did not come to its end, which fail every gate too.

    Raises:
        UsageError: a limit on Rel-NFR that no table of so many samples can exceed.
    """
    given = limits.given()
    for kind, limit in given:
        kind.check_reach(limit, counts.total)
    checks = _conditions(counts, limits, identical, unfinished) if given else []
    checks += [_check(counts, kind, limit, limits) for kind, limit in given]
    answers = {check.answer for check in checks}
    return Gate(
        **limits.model_dump(),
        passed=all(check.passed for check in checks),
        answer="fail" if "fail" in answers else "undecided" if "undecided" in answers else "pass",
        failed=[check.name for check in checks if not check.passed],
        checks=checks,
    )


def _conditions(
    counts: Counts, limits: Limits, identical: bool, unfinished: Sequence[str]
) -> list[GateCheck]:
    """What makes every limit meaningless, whatever its value."""
    failed: list[tuple[str, str]] = []
    if identical and not limits.allow_identical:
        failed.append(("identical", f"{IDENTICAL}; name the replacement, or give --allow-identical"))
    if unfinished and not limits.allow_unfinished:
        sentence = "; ".join(unfinished)
        failed.append(("unfinished", f"{sentence}; finish it with --resume, or give --allow-unfinished"))
    if not counts.old_right:
        failed.append(("old-never-right", f"{never_right(counts)}, and no limit means anything"))
    return [failed_condition(name, message) for name, message in failed]


def failed_condition(name: str, message: str) -> GateCheck:
    """A check that fails whatever the rates are."""
    return GateCheck(
        name=name, limit=None, value=None, tested=None, answer="fail", passed=False, message=message
    )


def _check(counts: Counts, kind: LimitKind, limit: float, limits: Limits) -> GateCheck:
    """Hold a value, or with a confidence its interval, against a limit."""
    value, level = kind.value(counts), limits.confidence
    interval = kind.interval(counts, level) if level is not None and value is not None else None
    tested = interval[1] if interval else value if level is None else None
    answer: Decision = "fail"
    if tested is not None:
        answer = decide(interval or (tested, tested), limit)
    shown = "n/a" if value is None else f"{100 * value:.2f}%"
    if interval is not None:
        shown += f" ({100 * interval[0]:.2f} to {100 * interval[1]:.2f}% with {100 * level:g}% confidence)"
    more = None
    if answer == "undecided":
        more = more_samples(counts, lambda grown: kind.interval(grown, level or 0), limit)
    said = f"{kind.title} {shown} {_word(answer, tested)} the limit of {100 * limit:g}%"
    if answer == "undecided":
        said += f": {_needed(more)}"
    return GateCheck(
        name=kind.name,
        limit=limit,
        value=value,
        tested=tested,
        interval=interval,
        answer=answer,
        more_samples=more,
        passed=answer == "pass" or (answer == "undecided" and limits.undecided == "pass"),
        message=said,
    )


def _word(answer: Decision, tested: float | None) -> str:
    if tested is None:
        return "cannot be held against"
    return {"pass": "is within", "fail": "exceeds", "undecided": "is not decided against"}[answer]


def _needed(more: int | None) -> str:
    if more is None:
        return "no number of samples within reach would decide it at these rates"
    return f"about {more:,} more samples of old classes would decide it, if the rates stay"
