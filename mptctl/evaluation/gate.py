"""The release gate: limits in, a verdict that names every limit that failed out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mptctl.errors import UsageError
from mptctl.evaluation.flip_report import CheckName, Counts, Gate, GateCheck, Interval
from mptctl.evaluation.sanity import IDENTICAL, never_right
from mptctl.evaluation.statistics import error_difference, relative_nfr, relative_nfr_interval, wilson

# Limits arrive as percent: 0.7 / 100 is a hair below 7 / 1000, and must not fail a rate that equals it.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Limits:
    """What a release must keep to, in fractions; None sets no limit.

    Attributes:
        max_nfr: largest NFR.
        max_lost: largest part of the old model's right answers that are lost.
        max_rel_nfr: largest Rel-NFR.
        max_er_increase: largest ER_new - ER_old on samples of the old classes.
        confidence: level of the interval whose upper end must pass; None judges the point value.
        allow_identical: judge one and the same model too.
        allow_unfinished: judge models of runs that did not come to their end too.

    Raises:
        UsageError: a limit that no rate can reach or none can keep to, or a confidence outside [0.5, 1).
    """

    max_nfr: float | None = None
    max_lost: float | None = None
    max_rel_nfr: float | None = None
    max_er_increase: float | None = None
    confidence: float | None = None
    allow_identical: bool = False
    allow_unfinished: bool = False

    def __post_init__(self) -> None:
        # Below one half the "upper" bound would come ever closer to the value itself, and promise nothing.
        if self.confidence is not None and not 0.5 <= self.confidence < 1:
            raise UsageError(
                f"--confidence {self.confidence:g}: must be at least 0.5 and below 1, such as 0.95"
            )
        for flag, limit, low in (
            ("--max-nfr", self.max_nfr, 0),
            ("--max-lost", self.max_lost, 0),
            ("--max-er-increase", self.max_er_increase, -1),
        ):
            if limit is not None and not low <= limit <= 1:
                raise UsageError(f"{flag} {100 * limit:g}: must lie between {100 * low} and 100")
        limit = self.max_rel_nfr
        if limit is not None and not (limit >= 0 and math.isfinite(limit)):
            raise UsageError(f"--max-rel-nfr {100 * limit:g}: must be finite and at least 0")

    @property
    def are_set(self) -> bool:
        """Whether a limit is set."""
        limits = (self.max_nfr, self.max_lost, self.max_rel_nfr, self.max_er_increase)
        return any(limit is not None for limit in limits)


def check_gate(
    counts: Counts, limits: Limits, *, identical: bool = False, unfinished: Sequence[str] = ()
) -> Gate:
    """Hold a flip table against limits. A rate that is not defined fails its limit.

    Args:
        counts: the flip table.
        limits: what it must keep to; without a limit everything passes.
        identical: old and new model are one: nothing was compared, which fails every gate.
        unfinished: sentences on models whose run did not come to its end, which fail every gate too.

    Raises:
        UsageError: a limit on Rel-NFR that no table of so many samples can exceed.
    """
    n, flips = counts.total, counts.negative_flips
    # Rel-NFR is at most n: one flip, and no other right answer before nor wrong one now.
    if limits.max_rel_nfr is not None and limits.max_rel_nfr > n:
        raise UsageError(
            f"--max-rel-nfr {100 * limits.max_rel_nfr:g}: Rel-NFR of {n:,} samples is never above {100 * n:,}%; "
            "set a limit below that"
        )
    checks = _conditions(counts, limits, identical, unfinished) if limits.are_set else []
    level, right = limits.confidence, counts.old_right
    increase = (flips - counts.positive_flips) / n
    if limits.max_nfr is not None:
        interval = wilson(flips, n, level) if level else None
        checks.append(_check("max-nfr", "NFR", limits.max_nfr, flips / n, level, interval))
    if limits.max_lost is not None:
        lost = flips / right if right else None
        interval = wilson(flips, right, level) if level else None
        checks.append(
            _check("max-lost", "share of right answers lost", limits.max_lost, lost, level, interval)
        )
    if limits.max_rel_nfr is not None:
        interval = relative_nfr_interval(counts, level) if level else None
        value = relative_nfr(counts)
        checks.append(_check("max-rel-nfr", "Rel-NFR", limits.max_rel_nfr, value, level, interval))
    if limits.max_er_increase is not None:
        interval = error_difference(counts, level) if level else None
        limit = limits.max_er_increase
        checks.append(_check("max-er-increase", "error increase", limit, increase, level, interval))
    return Gate(
        max_nfr=limits.max_nfr,
        max_lost=limits.max_lost,
        max_rel_nfr=limits.max_rel_nfr,
        max_er_increase=limits.max_er_increase,
        confidence=level,
        allow_identical=limits.allow_identical,
        allow_unfinished=limits.allow_unfinished,
        passed=all(check.passed for check in checks),
        failed=[check.name for check in checks if not check.passed],
        checks=checks,
    )


def _conditions(
    counts: Counts, limits: Limits, identical: bool, unfinished: Sequence[str]
) -> list[GateCheck]:
    """What makes every limit meaningless, whatever its value."""
    failed: list[tuple[CheckName, str]] = []
    if identical and not limits.allow_identical:
        failed.append(("identical", f"{IDENTICAL}; name the replacement, or give --allow-identical"))
    if unfinished and not limits.allow_unfinished:
        sentence = "; ".join(unfinished)
        failed.append(("unfinished", f"{sentence}; finish it with --resume, or give --allow-unfinished"))
    if not counts.old_right:
        failed.append(("old-never-right", f"{never_right(counts)}, and no limit means anything"))
    return [
        GateCheck(name=name, limit=None, value=None, tested=None, passed=False, message=message)
        for name, message in failed
    ]


def _check(
    name: CheckName,
    what: str,
    limit: float,
    value: float | None,
    level: float | None,
    interval: Interval | None,
) -> GateCheck:
    """Hold a value, or with a level the upper end of its interval, against a limit."""
    tested = value
    if level is not None and value is not None:
        tested = interval[1] if interval else None
    passed = tested is not None and tested <= limit + ROUNDING
    shown = "n/a" if value is None else f"{100 * value:.2f}%"
    if level is not None and tested is not None:
        shown += f" (at most {100 * tested:.2f}% with {100 * level:g}% confidence)"
    word = "is within" if passed else "exceeds" if tested is not None else "cannot be held against"
    return GateCheck(
        name=name,
        limit=limit,
        value=value,
        tested=tested,
        passed=passed,
        message=f"{what} {shown} {word} the limit of {100 * limit:g}%",
    )
