"""The release gate: a flip table held against limits, with a verdict that names every limit that failed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from mptctl.evaluation.decision import PROBABILITY, Decision, decide, more_samples
from mptctl.evaluation.limits import LimitKind, Limits
from mptctl.evaluation.pairing.sanity import IDENTICAL, never_right_sentence
from mptctl.evaluation.rates import Counts, Interval
from mptctl.evaluation.verdict import Gate, GateCheck, LimitRow, OldFault


@dataclass(frozen=True)
class Scope:
    """Samples that have limits: a slice, or the whole test set.

    Attributes:
        name: of the slice; empty for the whole test set.
        counts: the flip table of these samples.
        limits: the limits that this flip table must keep.
        waived: how many of its flips are waived.
    """

    name: str
    counts: Counts
    limits: Limits
    waived: int


def check_gate(
    counts: Counts,
    limits: Limits,
    *,
    identical: bool = False,
    unfinished: Sequence[str] = (),
    old_faults: Sequence[OldFault] = (),
    waived: int = 0,
    scopes: Sequence[Scope] = (),
    rules: Sequence[GateCheck] = (),
) -> Gate:
    """Hold a flip table against limits, and return the verdict.

    With a confidence, the two-sided interval of a rate decides its limit: pass, fail or undecided (`decide`).
    Without one, the value of the rate decides. A rate that is not defined fails its limit.

    >>> table = Counts(both_right=6, negative_flips=1, positive_flips=2, both_wrong=1)
    >>> check_gate(table, Limits(max_nfr=0.05)).checks[0].message
    'NFR 10.00 % exceeds the limit of 5 %'

    Args:
        counts: the flip table of the whole test set.
        limits: its limits; if there are no limits, slices' limits or rules at all, the gate passes.
        identical: old and new are one model, so nothing was compared. Fails unless the limits allow it.
        unfinished: a sentence on each model whose run did not end. Fails unless the limits allow it.
        old_faults: reasons why the old model's right answers say nothing; each fails the gate.
        waived: how many of the flips are waived.
        scopes: slices with limits of their own.
        rules: checks of the gate file that are no limits, such as samples that must be kept.

    Raises:
        UsageError: a limit on Rel-NFR that no table of so many samples can exceed.
    """
    every_scope = [Scope("", counts, limits, waived), *scopes]
    limit_checks = [
        _check_limit(scope, kind, limit) for scope in every_scope for kind, limit in scope.limits.given()
    ]
    conditions = []
    if limit_checks or rules:
        conditions = _failed_conditions(counts, limits, identical, unfinished, old_faults)
    checks = [*conditions, *limit_checks, *rules]
    return Gate(
        **limits.model_dump(),
        passed=all(check.passed for check in checks),
        answer=_worst_answer(check.answer for check in checks),
        with_waivers=any(check.with_waivers for check in checks),
        failed=[check.name for check in checks if not check.passed],
        checks=checks,
        limits=[
            LimitRow(**check.model_dump(include=set(LimitRow.model_fields)))
            for check in checks
            if check.limit is not None
        ],
    )


def _worst_answer(answers: Iterable[Decision]) -> Decision:
    """Return the worst of some answers; pass if there is none."""
    from_best_to_worst: tuple[Decision, ...] = ("pass", "undecided", "fail")
    return max(answers, key=from_best_to_worst.index, default="pass")


def _failed_conditions(
    counts: Counts,
    limits: Limits,
    identical: bool,
    unfinished: Sequence[str],
    old_faults: Sequence[OldFault],
) -> list[GateCheck]:
    """Return a failed check for each condition under which no limit means anything; else nothing."""
    failed: list[tuple[str, str]] = []
    if identical and not limits.allow_identical:
        failed.append(("identical", f"{IDENTICAL}; name the replacement, or give --allow-identical"))
    if unfinished and not limits.allow_unfinished:
        sentence = "; ".join(unfinished)
        failed.append(("unfinished", f"{sentence}; finish it with --resume, or give --allow-unfinished"))
    if not counts.old_right:
        failed.append(("old-never-right", f"{never_right_sentence(counts)}, and no limit means anything"))
    failed += [(fault.name, fault.message) for fault in old_faults]
    return [failed_condition(name, message) for name, message in failed]


def failed_condition(name: str, message: str) -> GateCheck:
    """Make a check that failed and has no limit.

    Args:
        name: of the condition, such as ``identical``.
        message: the reason, in a sentence.
    """
    return GateCheck(
        name=name, limit=None, value=None, tested=None, answer="fail", passed=False, message=message
    )


def _check_limit(scope: Scope, kind: LimitKind, limit: float) -> GateCheck:
    """Hold one rate of a scope against a limit: by its interval if there is a confidence, else by its value.

    Waived flips count in the interval. Where the limit is kept without them but not with them, it passes with
    waivers, and no interval stands beside it.

    Raises:
        UsageError: a limit on Rel-NFR that no table of so many samples can exceed.
    """
    kind.check_reach(limit, scope.counts.total)
    waived = scope.waived if kind.counts_flips else 0
    counts, limits, level = scope.counts, scope.limits, scope.limits.confidence
    flips = counts.negative_flips
    value = kind.value(counts, flips - waived)
    answer, interval = _decide_rate(kind, counts, flips, level, limit)
    needs_waivers = False
    # Which flips are waived was decided after they had been seen, so the rest is no sample of a rate.
    if waived and answer != "pass" and _decide_rate(kind, counts, flips - waived, level, limit)[0] == "pass":
        answer, interval, needs_waivers = "pass", None, True
    tested = None if interval is None else interval[1]
    if level is None or needs_waivers:
        tested = value
    more = None
    if answer == "undecided" and level is not None:
        more = more_samples(counts, flips, kind, level, limit)
    of = f" of {scope.name}" if scope.name else ""
    shown = _show_value(kind, value, interval, level, flips - waived, waived)
    outcome = _outcome_as_verb(answer, tested)
    message = f"{kind.title}{of} {shown} {outcome} the limit of {100 * limit:g} {kind.unit(100 * limit)}"
    if needs_waivers:
        message += " with waivers alone" + ("" if level is None else ", so that this pass has no level")
    if answer == "undecided":
        message += f"; {_samples_needed(more, scope.name)}"
    return GateCheck(
        name=f"{kind.name}{of}",
        limit=limit,
        value=value,
        tested=tested,
        interval=interval,
        answer=answer,
        more_samples=more,
        counted=flips - waived if kind.counts_flips else None,
        waived=waived,
        with_waivers=needs_waivers,
        passed=answer == "pass" or (answer == "undecided" and limits.undecided == "pass"),
        message=message,
    )


def _decide_rate(
    kind: LimitKind, counts: Counts, flips: int, level: float | None, limit: float
) -> tuple[Decision, Interval | None]:
    """Decide the limit of a rate, and return the interval that decided, if there is one.

    Args:
        kind: of the limit.
        counts: the flip table.
        flips: flips that count.
        level: of the interval; None: the value decides.
        limit: a fraction.
    """
    value = kind.value(counts, flips)
    if value is None:
        return "fail", None
    if level is None:
        return decide((value, value), limit), None
    interval = kind.interval(counts, flips, level)
    return ("fail", None) if interval is None else (decide(interval, limit), interval)


def _show_value(
    kind: LimitKind,
    value: float | None,
    interval: Interval | None,
    level: float | None,
    flips: int,
    waived: int,
) -> str:
    """Write a rate with its unit, and in brackets the waived flips and the interval, if there are any.

    Args:
        kind: of the limit on the rate.
        value: a fraction; None where the rate is not defined.
        interval: of the rate with all flips.
        level: of the interval.
        flips: flips that the rate counts.
        waived: flips that it does not count.
    """
    shown = "n/a" if value is None else f"{100 * value:.2f} {kind.unit()}"
    remarks = []
    if waived:
        remarks.append(f"{flips:,} flips counted, {waived:,} waived")
    if interval is not None and level is not None:
        bounds = f"{100 * interval[0]:.2f} to {100 * interval[1]:.2f} {kind.unit()}"
        of_all = " of all flips" if waived else ""
        remarks.append(f"{100 * level:.10g} % interval{of_all} {bounds}")
    return f"{shown} ({'; '.join(remarks)})" if remarks else shown


def _outcome_as_verb(answer: Decision, tested: float | None) -> str:
    """The predicate of a sentence on a limit, such as ``exceeds``; `tested` is None if there is no value."""
    if tested is None:
        return "is not defined here, which does not keep"
    return {"pass": "is within", "fail": "exceeds", "undecided": "is undecided: the interval contains"}[
        answer
    ]


def _samples_needed(more: int | None, place: str) -> str:
    """The end of a sentence on an undecided limit: how many more samples would decide it.

    Args:
        more: how many; None where no number within reach would.
        place: the slice that the limit is for; empty for the whole test set.
    """
    if more is None:
        return "no number of samples within reach would settle it at this rate"
    of = f"of {place}" if place else "of old classes"
    return (
        f"about {more:,} more samples {of} would settle it with {100 * PROBABILITY:g} % probability, if the "
        "rate stays the same (a gate that is repeated on more samples no longer has its level)"
    )
