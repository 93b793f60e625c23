"""The release gate: a flip table held against limits, with a verdict that names every limit that failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from mptctl.evaluation.decision import PROBABILITY, Decision, decide, more_samples
from mptctl.evaluation.limits import LimitKind, Limits
from mptctl.evaluation.pairing.sanity import IDENTICAL, never_right_sentence
from mptctl.evaluation.rates import Counts, Interval
from mptctl.evaluation.statistics import expected_flips
from mptctl.evaluation.verdict import Gate, GateCheck, LimitRow, OldFault

# From best to worst; the worst one of all checks is the gate's.
ANSWERS: tuple[Decision, ...] = ("pass", "undecided", "fail")
# An answer in a sentence before "the limit", and in few words before the limit itself.
VERBS = {"pass": "is within", "fail": "exceeds", "undecided": "is undecided: the interval contains"}
RELATIONS = {"pass": " within limit ", "fail": " > limit ", "undecided": ", limit "}


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
    return make_gate(limits, [*conditions, *limit_checks, *rules])


def make_gate(limits: Limits, checks: Sequence[GateCheck]) -> Gate:
    """Make the verdict of some checks; `limits` say how they decided."""
    return Gate(
        **limits.model_dump(),
        passed=all(check.passed for check in checks),
        answer=max((check.answer for check in checks), key=ANSWERS.index, default="pass"),
        with_waivers=any(check.with_waivers for check in checks),
        failed=[check.name for check in checks if not check.passed],
        checks=list(checks),
        limits=[
            LimitRow(**check.model_dump(include=set(LimitRow.model_fields)))
            for check in checks
            if check.limit is not None
        ],
    )


def _failed_conditions(
    counts: Counts, limits: Limits, identical: bool, unfinished: Sequence[str], old_faults: Sequence[OldFault]
) -> list[GateCheck]:
    """Return a failed check for each condition under which no limit means anything; else nothing."""
    failed = []
    if identical and not limits.allow_identical:
        message = f"{IDENTICAL}; name the replacement, or give --allow-identical"
        failed.append(failed_condition("identical", message))
    if unfinished and not limits.allow_unfinished:
        message = f"{'; '.join(unfinished)}; finish it with --resume, or give --allow-unfinished"
        failed.append(failed_condition("unfinished", message))
    if not counts.old_right:
        message = f"{never_right_sentence(counts)}, and no limit means anything"
        failed.append(failed_condition("old-never-right", message))
    return failed + [failed_condition(fault.name, fault.message) for fault in old_faults]


def failed_condition(name: str, message: str) -> GateCheck:
    """Make a check that failed and has no limit.

    Args:
        name: of the condition, such as ``identical``.
        message: the reason, in a sentence.
    """
    return GateCheck(
        name=name,
        limit=None,
        value=None,
        answer="fail",
        passed=False,
        message=message,
        brief=message.partition(";")[0],
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
    answer, interval = _decide_rate(kind, counts, flips, limits, limit)
    needs_waivers = False
    if waived and answer != "pass":
        answer_without_waived, _ = _decide_rate(kind, counts, flips - waived, limits, limit)
        needs_waivers = answer_without_waived == "pass"
    if needs_waivers:
        # Waivers were chosen after the flips had been seen, so the other flips are no sample of a rate.
        answer, interval = "pass", None
    more = None
    if answer == "undecided" and level is not None and limits.looks == "once":
        more = more_samples(counts, flips, kind, level, limit)
    worded = _WordedLimit(scope, kind, limit, value, waived)
    return GateCheck(
        name=f"{kind.name}{worded.of}",
        limit=limit,
        value=value,
        interval=interval,
        answer=answer,
        more_samples=more,
        counted=flips - waived if kind.counts_flips else None,
        waived=waived,
        with_waivers=needs_waivers,
        passed=answer == "pass",
        message=worded.message(answer, interval, more, needs_waivers=needs_waivers),
        brief=worded.brief(answer, needs_waivers=needs_waivers),
    )


def _decide_rate(
    kind: LimitKind, counts: Counts, flips: int, limits: Limits, limit: float
) -> tuple[Decision, Interval | None]:
    """Decide the limit of a rate, and return the interval that decided, if there is one.

    Args:
        kind: of the limit.
        counts: the flip table.
        flips: flips that count.
        limits: with the level of the interval, without which the value decides, and the looks that it is for.
        limit: a fraction.
    """
    value = kind.value(counts, flips)
    if value is None:
        return "fail", None
    if limits.confidence is None:
        return decide((value, value), limit), None
    interval = kind.interval_of(counts, flips, limits.confidence, limits.looks)
    return ("fail", None) if interval is None else (decide(interval, limit), interval)


@dataclass(frozen=True)
class _WordedLimit:
    """A limit of a scope in words.

    Attributes:
        scope: the samples.
        kind: of the limit.
        limit: a fraction.
        value: of the rate without waived flips; None where it is not defined.
        waived: flips that the value does not count.
    """

    scope: Scope
    kind: LimitKind
    limit: float
    value: float | None
    waived: int

    @property
    def of(self) -> str:
        """The slice, after the name of the rate; empty for the whole test set."""
        return f" of {self.scope.name}" if self.scope.name else ""

    @property
    def limit_with_unit(self) -> str:
        return f"{100 * self.limit:g} {self.kind.unit(100 * self.limit)}"

    @property
    def flips(self) -> int:
        """The flips that count."""
        return self.scope.counts.negative_flips - self.waived

    def message(
        self, answer: Decision, interval: Interval | None, more: int | None, *, needs_waivers: bool
    ) -> str:
        """A sentence: the value, the interval that decided, the verdict, and what would decide it.

        Args:
            answer: the verdict.
            interval: at the level of the gate; None where no interval decided.
            more: more samples that would decide; None where no number would.
            needs_waivers: the limit is kept without the waived flips alone.
        """
        level = self.scope.limits.confidence
        remarks = []
        if self.waived:
            remarks.append(f"{self.flips:,} flips counted, {self.waived:,} waived")
        if interval is not None and level is not None:
            remarks.append(f"{self._interval(interval, level)} {self.kind.unit()}")
        value = "n/a" if self.value is None else f"{100 * self.value:.2f} {self.kind.unit()}"
        in_parentheses = f" ({'; '.join(remarks)})" if remarks else ""
        verb = "is not defined here, which does not keep" if self.value is None else VERBS[answer]
        sentence = (
            f"{self.kind.title}{self.of} {value}{in_parentheses} {verb} the limit of {self.limit_with_unit}"
        )
        if needs_waivers:
            sentence += " with waivers alone" + ("" if level is None else ", so that this pass has no level")
        if answer != "undecided":
            return sentence
        if self.scope.limits.looks == "any":
            return f"{sentence}; add samples, and ask again at the same level"
        return f"{sentence}; {_samples_needed(more, self.scope.name)}"

    def brief(self, answer: Decision, *, needs_waivers: bool) -> str:
        """The limit in few words: ``NFR 5.94 % > limit 3 %  (58 of 976, 95 % interval 4.54 to 7.61)``.

        Without a level of the gate, the interval has 95 %.
        """
        kind, counts, level = self.kind, self.scope.counts, self.scope.limits.confidence
        if self.value is None:
            return f"{kind.short}{self.of} n/a, limit {self.limit_with_unit}  (nothing to count)"
        digits = ".2f" if kind.rate else "+.2f"
        value = f"{100 * self.value:{digits}} {kind.unit()}"
        remarks = []
        if kind.of is not None:
            of = f"{kind.of(counts):,}" if kind.high else f"{expected_flips(counts):,.1f} expected by chance"
            waived = f" counted, {self.waived:,} waived" if self.waived else ""
            remarks.append(f"{self.flips:,} of {of}{waived}")
        looks = self.scope.limits.looks
        interval = None
        if not needs_waivers:
            interval = kind.interval_of(counts, counts.negative_flips, level or 0.95, looks)
        if interval is not None:
            remarks.append(self._interval(interval, level or 0.95, digits))
        of_level = "; no level" if needs_waivers and level is not None else ""
        remark = f"({', '.join(remarks)}{of_level})"
        return f"{kind.short}{self.of} {value}{RELATIONS[answer]}{self.limit_with_unit}  {remark}"

    def _interval(self, interval: Interval, level: float, digits: str = ".2f") -> str:
        """An interval with its level: ``95 % interval 4.54 to 7.61``; `digits` is the format of its ends."""
        of_all = " of all flips" if self.waived else ""
        low, high = (f"{100 * end:{digits}}" for end in interval)
        return f"{100 * level:.10g} % interval{of_all} {low} to {high}"


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
