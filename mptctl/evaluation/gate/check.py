"""The release gate: limits in, a verdict that names every limit that failed out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from mptctl.errors import DataError
from mptctl.evaluation.decision import PROBABILITY, Decision, decide, more_samples
from mptctl.evaluation.flip_report import NarrowReading
from mptctl.evaluation.limits import LimitKind, Limits
from mptctl.evaluation.pairing.paired_answers import PairedAnswers
from mptctl.evaluation.pairing.sanity import IDENTICAL, never_right
from mptctl.evaluation.rates import Counts
from mptctl.evaluation.reading.columns import first
from mptctl.evaluation.verdict import Gate, GateCheck, LimitRow, WaiverRow

REMEDY = "give --old-classes FILE (or all)"


@dataclass(frozen=True)
class Scope:
    """A slice that has limits of its own.

    Attributes:
        name: of the slice.
        counts: its flip table.
        limits: what it must keep to.
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
    waived: int = 0,
    scopes: Sequence[Scope] = (),
    rules: Sequence[GateCheck] = (),
    waivers: Sequence[WaiverRow] = (),
) -> Gate:
    """Hold a flip table against limits. A rate that is not defined fails its limit.

    With a confidence the two-sided interval answers: pass, fail or undecided (`decide`); without one the
    value does.

    >>> table = Counts(both_right=6, negative_flips=1, positive_flips=2, both_wrong=1)
    >>> check_gate(table, Limits(max_nfr=0.05)).checks[0].message
    'NFR 10.00 % exceeds the limit of 5 %'

    Args:
        counts: the flip table.
        limits: what it must keep to; without a limit everything passes.
        identical: old and new model are one: nothing was compared, which fails every gate.
        unfinished: sentences on models whose run did not come to its end, which fail every gate too.
        waived: how many of the flips are waived.
        scopes: slices with limits of their own.
        rules: what else was checked.
        waivers: for the report.

    Raises:
        UsageError: a limit on Rel-NFR that no table of so many samples can exceed.
    """
    every = [Scope("", counts, limits, waived), *scopes]
    held = [_check(scope, kind, limit) for scope in every for kind, limit in scope.limits.given()]
    conditions = _conditions(counts, limits, identical, unfinished) if held or rules else []
    checks = [*conditions, *held, *rules]
    return Gate(
        **limits.model_dump(),
        passed=all(check.passed for check in checks),
        answer=_worst(check.answer for check in checks),
        failed=[check.name for check in checks if not check.passed],
        checks=checks,
        limits=[
            LimitRow(**check.model_dump(include=set(LimitRow.model_fields)))
            for check in checks
            if check.limit is not None
        ],
        waivers=list(waivers),
    )


def _worst(answers: Iterable[Decision]) -> Decision:
    """The answer of a gate: that of its worst check."""
    from_best_to_worst: tuple[Decision, ...] = ("pass", "undecided", "fail")
    return max(answers, key=from_best_to_worst.index, default="pass")


def _conditions(
    counts: Counts, limits: Limits, identical: bool, unfinished: Sequence[str]
) -> list[GateCheck]:
    """The conditions that make every limit meaningless, whatever its value."""
    failed: list[tuple[str, str]] = []
    if identical and not limits.allow_identical:
        failed.append(("identical", f"{IDENTICAL}; name the replacement, or give --allow-identical"))
    if unfinished and not limits.allow_unfinished:
        sentence = "; ".join(unfinished)
        failed.append(("unfinished", f"{sentence}; finish it with --resume, or give --allow-unfinished"))
    if not counts.old_right:
        failed.append(("old-never-right", f"{never_right(counts)}, and no limit means anything"))
    return [failed_condition(name, message) for name, message in failed]


def failed_condition(name: str, message: str, answer: Decision = "fail") -> GateCheck:
    """A check without a limit of its own that did not pass."""
    return GateCheck(
        name=name, limit=None, value=None, tested=None, answer=answer, passed=False, message=message
    )


def _check(scope: Scope, kind: LimitKind, limit: float) -> GateCheck:
    """Hold a value, or with a confidence its interval, against a limit."""
    kind.check_reach(limit, scope.counts.total)
    waived = scope.waived if kind.counts_flips else 0
    counts, limits = scope.counts, scope.limits
    flips = counts.negative_flips - waived
    value, level = kind.value(counts, flips), limits.confidence
    interval = kind.interval(counts, flips, level) if level is not None and value is not None else None
    if level is None and value is not None:
        tested, answer = value, decide((value, value), limit)
    elif interval is not None:
        tested, answer = interval[1], decide(interval, limit)
    else:
        tested, answer = None, "fail"
    unit = kind.unit(100 * limit)
    shown = "n/a" if value is None else f"{100 * value:.2f} {kind.unit()}"
    beside = []
    if waived:
        beside.append(f"{flips:,} flips counted, {waived:,} waived")
    if interval is not None and level is not None:
        bounds = f"{100 * interval[0]:.2f} to {100 * interval[1]:.2f} {kind.unit()}"
        beside.append(f"{100 * level:g} % interval {bounds}")
    if beside:
        shown += f" ({'; '.join(beside)})"
    more = None
    if answer == "undecided" and level is not None:
        more = more_samples(counts, flips, kind, level, limit)
    of = f" of {scope.name}" if scope.name else ""
    said = f"{kind.title}{of} {shown} {_outcome_as_verb(answer, tested)} the limit of {100 * limit:g} {unit}"
    if answer == "undecided":
        said += f"; {_samples_needed(more, scope.name)}"
    return GateCheck(
        name=f"{kind.name}{of}",
        limit=limit,
        value=value,
        tested=tested,
        interval=interval,
        answer=answer,
        more_samples=more,
        counted=flips if kind.counts_flips else None,
        waived=waived,
        passed=answer == "pass" or (answer == "undecided" and limits.undecided == "pass"),
        message=said,
    )


def _outcome_as_verb(answer: Decision, tested: float | None) -> str:
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


@dataclass(frozen=True)
class BothReadings:
    """A gate that holds for both readings of an old model that does not say which classes it knows.

    Attributes:
        gate: the stricter one.
        reading: the other reading.
        warning: what a reader of the numbers should know.
    """

    gate: Gate
    reading: NarrowReading
    warning: str


def evaluate_both(
    answers: PairedAnswers, silent: frozenset[str], gate: Gate, again: Callable[[PairedAnswers], Gate]
) -> BothReadings | None:
    """Holds the gate also without the labels that the old model never answers, which it may not know.

    Args:
        answers: with all labels as old classes.
        silent: labels that the old model never answers.
        gate: the verdict on them.
        again: the verdict on other old classes.

    Returns:
        None where there is no such label, or no sample without them.
    """
    narrow = PairedAnswers(answers.pairing, answers.old_classes - silent)
    counts = narrow.counts()
    if not silent or not counts.total:
        return None
    reading = NarrowReading(never_answered=sorted(silent), counts=counts)
    try:
        other = again(narrow)
    except DataError as error:  # a rule of the gate file on what cannot flip in this reading
        refused = failed_condition("old-classes", str(error))
        other = gate.model_copy(update={"passed": False, "answer": "fail", "checks": [refused]})
    name = answers.pairing.models["old"].name
    nfr = f"{100 * counts.negative_flips / counts.total:.2f} % ({counts.negative_flips:,} / {counts.total:,})"
    said = (
        f"{name} never predicts {len(silent)} of the labels ({first(sorted(silent))}); if it does not know "
        f"them, NFR is {nfr}"
    )
    if other.passed != gate.passed:
        said += f", and the verdict differs; the stricter one is used; {REMEDY}"
    elif gate.checks:
        said += ", and the verdict is the same"
    return BothReadings(stricter(gate, other, REMEDY), reading, said)


def stricter(gate: Gate, other: Gate, remedy: str) -> Gate:
    """A gate that passes where both do; where the other alone fails, a check of its own says so."""
    if other.passed or not gate.passed:
        return gate
    reasons = "; ".join(check.message for check in other.checks if not check.passed)
    said = f"OLD does not say which classes it knows, and on those that it predicts: {reasons}; {remedy}"
    check = failed_condition("old-classes", said, other.answer)
    update = {
        "passed": False,
        "answer": other.answer,
        "failed": [*gate.failed, check.name],
        "checks": [*gate.checks, check],
    }
    return gate.model_copy(update=update)
