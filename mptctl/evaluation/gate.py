"""The release gate: limits in, a verdict that names every limit that failed out."""

from __future__ import annotations

from dataclasses import dataclass

from mptctl.errors import UsageError
from mptctl.evaluation.statistics import bootstrap, relative_nfr, wilson
from mptctl.evaluation.summary import Counts, Gate, GateCheck

# Limits arrive as percent: 0.7 / 100 is a hair below 7 / 1000, and must not fail a rate that equals it.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Limits:
    """What a release must keep to, in fractions; None sets no limit.

    Attributes:
        max_nfr: largest NFR.
        max_rel_nfr: largest Rel-NFR.
        max_er_increase: largest ER_new - ER_old on samples of the old classes.
        confidence: level of the interval whose upper end must pass; None judges the point value.
    """

    max_nfr: float | None = None
    max_rel_nfr: float | None = None
    max_er_increase: float | None = None
    confidence: float | None = None

    def __post_init__(self) -> None:
        if self.confidence is not None and not 0 < self.confidence < 1:
            raise UsageError(f"--confidence {self.confidence:g}: must lie between 0 and 1, such as 0.95")


def check_gate(counts: Counts, limits: Limits, seed: int = 0) -> Gate:
    """Hold a flip table against limits. A rate that is not defined fails its limit."""
    level = limits.confidence
    n = counts.total
    drawn = bootstrap(counts, level, seed) if level else None
    nfr_interval = wilson(counts.negative_flips, n, level) if level else None
    increase = (counts.negative_flips - counts.positive_flips) / n
    candidates = (
        ("max-nfr", "NFR", limits.max_nfr, counts.negative_flips / n, nfr_interval),
        ("max-rel-nfr", "Rel-NFR", limits.max_rel_nfr, relative_nfr(counts), drawn and drawn.rel_nfr),
        (
            "max-er-increase",
            "error increase",
            limits.max_er_increase,
            increase,
            drawn and drawn.er_difference,
        ),
    )
    checks = []
    for name, what, limit, value, interval in candidates:
        if limit is None:
            continue
        tested = value
        if level is not None and value is not None:
            tested = interval[1] if interval else None
        passed = tested is not None and tested <= limit + ROUNDING
        shown = "n/a" if value is None else f"{100 * value:.2f}%"
        if level is not None and tested is not None:
            shown += f" (at most {100 * tested:.2f}% with {100 * level:g}% confidence)"
        word = "is within" if passed else "exceeds" if tested is not None else "cannot be held against"
        checks.append(
            GateCheck.model_validate(
                {
                    "name": name,
                    "limit": limit,
                    "value": value,
                    "tested": tested,
                    "passed": passed,
                    "message": f"{what} {shown} {word} the limit of {100 * limit:g}%",
                }
            )
        )
    return Gate(
        max_nfr=limits.max_nfr,
        max_rel_nfr=limits.max_rel_nfr,
        max_er_increase=limits.max_er_increase,
        confidence=level,
        passed=all(check.passed for check in checks),
        failed=[check.name for check in checks if not check.passed],
        checks=checks,
    )
