"""The one line that a comparison comes to, in words: the last of the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from mptctl.errors import some
from mptctl.evaluation.flip_report import FlipReport
from mptctl.evaluation.limits import LIMITS
from mptctl.evaluation.rates import Interval, Rate
from mptctl.evaluation.verdict import GateCheck
from mptctl.report.documents.wording import verdict
from mptctl.report.media.numbers import of_count, percent, points

# Limits that the line names of each answer; the table and the JSON have the others.
NAMED = 3
KINDS = {kind.name: kind for kind in LIMITS}


def verdict_line(report: FlipReport) -> str:
    """May this replacement be released, and on which figure that rests; without a limit the figure alone."""
    gate = report.gate
    if not gate.checks:
        nfr = report.rates.nfr
        said = f"NFR {percent(nfr.value)}  ({_counted(report, nfr)})"
        return f"OLD and NEW are the same model: {said}" if report.identical else said
    word = verdict(report).state.upper()
    if len(gate.checks) == 1:
        return f"{word}  {_at_length(report, gate.checks[0])}"
    failed = [check for check in gate.checks if check.answer == "fail"]
    undecided = [check for check in gate.checks if check.answer == "undecided"]
    kept = [check for check in gate.checks if check.answer == "pass"]
    groups = [("", failed), ("undecided: ", undecided), ("kept: ", kept)]
    if word == "PASSED":
        groups = [("", kept), ("undecided, which passes here: ", undecided)]
    if word == "UNDECIDED":
        groups = [("", undecided), ("kept: ", kept)]
    return f"{word}  " + "; ".join(f"{name}{_short(report, checks)}" for name, checks in groups if checks)


def _at_length(report: FlipReport, check: GateCheck) -> str:
    """One limit as ``NFR 5.94 % > limit 3 %  (58 of 976, 95 % interval 4.54 to 7.61)``."""
    kind = KINDS.get(check.name)
    if kind is None:
        return _short(report, [check])
    if not kind.rate and check.value is not None:
        low, high = check.interval or report.er_difference.ci95
        return (
            f"error on old classes {points(check.value)}{_against(check)}  ({_level(report, check)} interval "
            f"{100 * low:+.2f} to {100 * high:+.2f})"
        )
    if kind.rate:
        title, rate = report.rates.titled(kind.rate)
        counted = _counted(report, rate, check)
        return f"{title} {percent(check.value)}{_against(check)}  ({counted})"
    return _short(report, [check])


def _counted(report: FlipReport, rate: Rate, check: GateCheck | None = None) -> str:
    """Count and interval of a rate, or of a limit on it: ``2 of 452, 95 % interval 0.05 to 1.59``."""
    if (rate.value if check is None else check.value) is None:
        return "nothing to count"
    waived = check.waived if check is not None else 0
    counted = of_count(rate, waived)
    interval: Interval | None = check.interval if check is not None else None
    # The report's own interval is of the rate without waivers.
    if interval is None and not waived:
        interval = rate.ci95
    if interval is None:
        return counted
    return f"{counted}, {_level(report, check)} interval {100 * interval[0]:.2f} to {100 * interval[1]:.2f}"


def _level(report: FlipReport, check: GateCheck | None) -> str:
    level = report.gate.confidence if check is not None and check.interval is not None else None
    return f"{100 * (level or 0.95):g} %"


def _against(check: GateCheck) -> str:
    """The limit as it stands behind a value: kept, exceeded, or with a comma where neither is shown."""
    assert check.limit is not None
    kind = KINDS[check.name.partition(" of ")[0]]
    limit = f"{100 * check.limit:g} %" if kind.rate else points(check.limit, sign=False)
    if check.value is None or check.answer == "undecided":
        return f", limit {limit}"
    return f" within limit {limit}" if check.answer == "pass" else f" > limit {limit}"


def _short(report: FlipReport, checks: Sequence[GateCheck]) -> str:
    """Several limits, each with its value."""
    return some((_brief(report, check) for check in checks), NAMED, "; ")


def _brief(report: FlipReport, check: GateCheck) -> str:
    kind = KINDS.get(check.name.partition(" of ")[0])
    if kind is None:
        return check.message.partition(";")[0]
    of = check.name.removeprefix(kind.name)
    if not kind.rate:
        value = "n/a" if check.value is None else points(check.value)
        return f"error on old classes{of} {value}{_against(check)}"
    title, rate = report.rates.titled(kind.rate)
    counted = "" if of else f" ({of_count(rate, check.waived)})"
    return f"{title}{of} {percent(check.value)}{_against(check)}{counted}"
