"""The verdict of the gate as a JSON model: each limit, the value that was held against it, and the answer."""

from __future__ import annotations

from datetime import date

from pydantic import Field

from mptctl.errors import GateFailed, some
from mptctl.evaluation.decision import Decision
from mptctl.evaluation.limits import LIMITS, Limits
from mptctl.evaluation.rates import Interval
from mptctl.files import Model

# Most reasons that an error names, since it is one line.
NAMED = 20


class OldFault(Model):
    """A reason why the old model's right predictions say nothing, so that every gate fails."""

    name: str = Field(description="old-by-chance or old-names-exchanged")
    message: str = Field(description="the reason, with counts")


class GateCheck(Model):
    """A check of the gate: a limit, a rule, or a failed condition such as identical or unfinished."""

    name: str = Field(description="the option that set the limit, or the condition")
    limit: float | None = Field(description="a fraction; null for a condition")
    value: float | None = Field(description="the point value")
    interval: Interval | None = Field(
        default=None,
        description="the interval at `confidence`, which decides, of all flips, also waived ones; null "
        "without one",
    )
    answer: Decision = Field(description="pass: all of it is within the limit; fail: all of it is above")
    more_samples: int | None = Field(
        default=None,
        description="undecided: so many more samples, of the slice or of old classes, would decide with 80 % "
        "probability at the observed rates; null: no number within reach would",
    )
    counted: int | None = Field(
        default=None, description="flips that the value counts; null for an error increase and a condition"
    )
    waived: int = Field(default=0, description="flips that waivers take off the value")
    with_waivers: bool = Field(
        default=False,
        description="it would not pass with the waived flips; then no interval and no level is given",
    )
    passed: bool = Field(description="the verdict is pass")
    message: str = Field(description="the same in a sentence")
    brief: str = Field(description="the same in few words")

    def __repr__(self) -> str:
        return f"<GateCheck {self.name}: {self.answer}, {self.message}>"


class LimitRow(Model):
    """A limit of the whole test set or of a slice, or the rule on samples that must be kept."""

    name: str = Field(description="the limit, and the slice that it is for")
    limit: float = Field(description="a fraction")
    value: float | None = Field(description="the point value, a fraction")
    interval: Interval | None = Field(description="the interval that decides; null without a confidence")
    answer: Decision = Field(description="pass, fail or undecided")
    counted: int | None = Field(description="flips that the value counts; null for an error increase")
    waived: int = Field(description="flips that waivers take off the value")


class WaiverRow(Model):
    """A waiver of the gate file, and the flips that it covers."""

    name: str = Field(description="the sample or the slice")
    reason: str = Field(description="why its flips were agreed to")
    owner: str = Field(description="who is responsible for it")
    expires: date = Field(description="the last day on which it is valid")
    expired: bool = Field(description="that day has passed in UTC, so the waiver is not valid")
    max_flips: int | None = Field(description="of a slice: the most flips that were agreed to")
    exceeded: bool = Field(description="there are more flips than that, so the waiver is not valid")
    flips: int = Field(description="flips that it covers; 0: it is no longer needed")


class Gate(Limits):
    """The verdict of the gate on a replacement, and the limits that decided."""

    passed: bool = Field(default=True, description="true where every limit is kept, and where none is set")
    answer: Decision = Field(
        default="pass", description="fail where anything fails, else undecided where anything is"
    )
    with_waivers: bool = Field(
        default=False,
        description="a limit or rule passes only because waivers take flips off: no level is promised",
    )
    failed: list[str] = Field(
        default_factory=list, description="names of the limits and conditions that did not pass"
    )
    checks: list[GateCheck] = Field(
        default_factory=list, description="every condition that failed, and every limit that was set"
    )
    limits: list[LimitRow] = Field(default_factory=list, description="every limit that was set, in short")
    waivers: list[WaiverRow] = Field(default_factory=list, description="of the gate file, used or not")

    def __repr__(self) -> str:
        failed = f", failed: {', '.join(self.failed)}" if self.failed else ""
        return f"<Gate: {self.answer}{failed}>"

    def require_passed(self) -> None:
        """Raise GateFailed, with the reasons, if a limit or a condition did not pass."""
        failed = [check for check in self.checks if not check.passed]
        if failed:
            options = {*(kind.name for kind in LIMITS), "max-flip-rate"}
            reasons = [f"--{c.name}: {c.message}" if c.name in options else c.message for c in failed]
            word = "failed" if self.answer == "fail" else "undecided"
            raise GateFailed(f"gate {word}: {some(reasons, NAMED, '; ')}")
