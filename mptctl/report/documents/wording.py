"""The words and rows that every report shares, so that terminal, Markdown and HTML say the same."""

from __future__ import annotations

from dataclasses import dataclass

from mptctl.errors import some
from mptctl.evaluation.flip_report import ClassRow, FlipReport, ModelSummary
from mptctl.evaluation.limits import LIMITS
from mptctl.evaluation.pairing.sanity import IDENTICAL
from mptctl.evaluation.rates import Interval, Rate, Wording
from mptctl.evaluation.reading.columns import first
from mptctl.evaluation.statistics import SIGNIFICANT
from mptctl.evaluation.verdict import GateCheck, WaiverRow
from mptctl.files.explained import shown
from mptctl.names import SortKey
from mptctl.report.media.document import State
from mptctl.report.media.numbers import format_interval, of_count, p_value, percent, points

# Limits that the line names of each answer; the table and the JSON have the others.
NAMED = 3
KINDS = {kind.name: kind for kind in LIMITS}
# Limits, waivers and renamed classes that are named one by one.
CHECKS, WAIVERS, MAPPED = 20, 10, 5


@dataclass(frozen=True)
class Verdict:
    """The head of a report.

    Attributes:
        state: of the gate; ``ungated`` where no limit is set.
        title: the state and its limits.
        sentences: what it rests on, the most important first.
    """

    state: State
    title: str
    sentences: tuple[str, ...]


def slices_sentence(report: FlipReport) -> str:
    """The number of slices that are worse than the rest; empty where none were asked for."""
    if not report.slices and not report.small_slices:
        return ""
    worse = sum(row.worse for row in report.slices)
    found = "none is" if not worse else "1 is" if worse == 1 else f"{worse:,} are"
    said = f"Of {len(report.slices):,} slices {found} worse than the rest (q < 0.05)"
    small = report.small_slices
    return said + (
        f"; {small:,} smaller than --min-slice {'is' if small == 1 else 'are'} not ranked." * bool(small)
        or "."
    )


def rate_lines(report: FlipReport) -> list[tuple[Wording, Rate]]:
    """The flip rates over test samples of the old classes; their words stand at the fields of `Rates`."""
    lines = report.rates.worded()
    if report.noise_floor is not None:
        third = "OLD trained again" if report.noise_floor.same_classes else "the third model"
        lines.append((Wording("noise floor", f"NFR of {third}"), report.noise_floor.nfr))
    return lines


def model_rows(report: FlipReport) -> list[list[str]]:
    """Rows of errors and calibration of both models; n/a where a model knows none of the new classes."""
    old, new = report.old, report.new
    return [
        ["error, old classes", percent(old.er_old_classes), percent(new.er_old_classes)],
        ["error, new classes", *(percent(_known(m, m.er_new_classes)) for m in (old, new))],
        ["error, all classes", *(percent(_known(m, m.er_all)) for m in (old, new))],
        ["ECE, classes it knows", percent(old.ece), percent(new.ece)],
        ["AECE, classes it knows", percent(old.aece), percent(new.aece)],
    ]


def _known(model: ModelSummary, error: float | None) -> float | None:
    """An error rate over new classes too; None where there are some and the model knows none of them."""
    return None if model.knows_new is False and model.errors.new_classes.of else error


def verdict(report: FlipReport) -> Verdict:
    """The answer first: may this replacement be released, and on what that rests."""
    gate, state = report.gate, _state(report)
    flips = report.rates.nfr
    sentences = (
        *_doubt_sentences(report),
        *check_sentences(gate.checks),
        *waiver_sentences(gate.waivers),
        f"Of {flips.of:,} test samples of old classes, {flips.count:,} that the old model got right "
        f"{'is' if flips.count == 1 else 'are'} wrong now: NFR {percent(flips.value)} (95 % interval "
        f"{format_interval(flips.ci95)}).",
        *further_sentences(report),
    )
    if state == "ungated":
        title = "OLD and NEW are the same model" if report.identical else f"NFR {percent(flips.value)}"
    else:
        said = _limits(report, in_title=True)
        title = f"{state.capitalize()}: {'; '.join(said if state == 'passed' else said[:1])}"
    return Verdict(state, title, sentences)


def _state(report: FlipReport) -> State:
    gate = report.gate
    if not gate.checks:
        return "ungated"
    return "passed" if gate.passed else "undecided" if gate.answer == "undecided" else "failed"


def sentences_beside_line(report: FlipReport) -> tuple[str, ...]:
    """Sentences that the verdict in one line leaves out."""
    return (
        *_doubt_sentences(report),
        *(_needed(check) for check in report.gate.checks[:CHECKS] if check.answer == "undecided"),
        *waiver_sentences(report.gate.waivers),
        *further_sentences(report),
    )


def _needed(check: GateCheck) -> str:
    """The number of samples that would settle a limit, in one line of a screen."""
    kind, _, place = check.name.partition(" of ")
    limit, place = (check.name, place) if place else (f"--{kind}", "old classes")
    if check.more_samples is None:
        return f"No number of samples within reach would settle {limit} at this rate."
    return f"About {check.more_samples:,} more samples of {place} would settle {limit} at this rate."


def _doubt_sentences(report: FlipReport) -> list[str]:
    """Sentences on one model given twice and on unfinished runs, where the gate says nothing of them."""
    failed = report.gate.failed
    found = []
    if report.identical and "identical" not in failed:
        found.append(f"{IDENTICAL[0].upper()}{IDENTICAL[1:]}.")
    if "unfinished" not in failed:
        found += [f"{sentence}." for sentence in report.unfinished]
    return found


def further_sentences(report: FlipReport) -> list[str]:
    """Sentences beside NFR: the change of error, and the results of further options."""
    change = report.er_difference
    # At the edge the exact test and the interval can disagree; then neither word is said.
    within = change.ci95[0] <= 0 <= change.ci95[1] and report.mcnemar_p >= SIGNIFICANT
    noise = ", no more than sampling noise" if within else ""
    sentences = [
        f"Error on old classes went from {percent(report.old.er_old_classes)} to "
        f"{percent(report.new.er_old_classes)}: {points(change.value)} ({100 * change.ci95[0]:+.2f} to "
        f"{100 * change.ci95[1]:+.2f}; McNemar {p_value(report.mcnemar_p)}){noise}.",
        *_class_map_sentences(report),
        *_weighted_sentences(report),
    ]
    if report.equivalence is not None:
        e = report.equivalence
        sentences.append(
            f"NFR below {100 * e.margin:g} %: {e.below}, by the {100 * e.confidence:g} % interval."
        )
    if report.noise_floor is not None:
        floor = report.noise_floor
        sentences.append(
            f"Retraining noise: OLD trained again ({floor.name}) flips {percent(floor.nfr.value)}."
            if floor.same_classes
            else f"The third model ({floor.name}) flips {percent(floor.nfr.value)}; it is not known if its "
            "classes are OLD's."
        )
    for curve in report.bias_sweep:
        if curve.role == "baseline" and curve.at_new_error is not None:
            sentences.append(
                f"Plain comparison: {curve.name}, shifted by {curve.at_new_error.bias:.4g}, has an NFR of "
                f"{percent(curve.nfr_at_new_error)} at an error on all classes no higher than NEW's. The "
                "shift is read off the test part."
            )
        elif curve.role == "baseline":
            sentences.append(
                f"Plain comparison: no shift brings {curve.name} to NEW's error on all classes, so flips "
                "cannot be compared at equal error. Shifts are read off the test part."
            )
    return sentences


def _class_map_sentences(report: FlipReport) -> list[str]:
    classes = report.class_map or []
    found = [
        f"{shown(row.name)} stands for {first(row.old)} of OLD and {first(row.new)} of NEW."
        for row in classes[:MAPPED]
    ]
    if (more := len(classes) - MAPPED) > 0:
        found.append(f"{more:,} more classes have other names in NEW; all of them are in the JSON.")
    return found


def _weighted_sentences(report: FlipReport) -> list[str]:
    if (found := report.weighted) is None:
        return []
    nfr, lost, old, new = (
        f"{percent(rate.value)} ({format_interval(rate.ci95)})"
        for rate in (found.nfr, found.lost, found.er_old, found.er_new)
    )
    return [
        f"Weighted by {shown(found.column)}: NFR {nfr}, lost {lost}; "
        f"error on old classes from {old} to {new}."
    ]


def check_sentences(checks: list[GateCheck]) -> list[str]:
    """Every limit in a sentence, those that did not pass first; of very many also how many more there are."""
    ordered = sorted(checks, key=lambda check: check.passed)
    more = ordered[CHECKS:]
    sentences = [f"{check.message}." for check in ordered[:CHECKS]]
    if not more:
        return sentences
    failed = sum(not check.passed for check in more)
    return [
        *sentences,
        f"{len(more):,} more limits, of which {failed:,} did not pass; all of them are in the JSON.",
    ]


def waiver_sentences(waivers: list[WaiverRow]) -> list[str]:
    """Flips that were waived, with reason and owner; waivers that nothing needs any more."""
    used = [row for row in waivers if row.flips and not (row.expired or row.exceeded)]
    found = [
        f"Waived: {row.flips:,} {'flip' if row.flips == 1 else 'flips'} of {shown(row.name)} "
        f"({shown(row.reason)}; {shown(row.owner)}, until {row.expires})."
        for row in used[:WAIVERS]
    ]
    if more := used[WAIVERS:]:
        found.append(f"Waived: {sum(row.flips for row in more):,} more flips by {len(more):,} waivers.")
    if spare := [row.name for row in waivers if not row.flips]:
        found.append(f"No longer needed, to be removed: the waiver of {first(spare)}.")
    return found


def sort_classes(rows: list[ClassRow], key: SortKey) -> list[ClassRow]:
    """Classes, worst first by the chosen column; or by name."""
    if key == "name":
        return sorted(rows, key=lambda row: row.label)
    if key == "nfr":
        return sorted(rows, key=lambda row: (-(row.nfr.value or 0), -row.negative_flips, row.label))
    if key == "error":
        return sorted(rows, key=lambda row: (-(row.er_new - row.er_old), -row.negative_flips, row.label))
    return rows


def verdict_line(report: FlipReport) -> str:
    """May this replacement be released, and on which figure that rests; without a limit the figure alone."""
    gate = report.gate
    if not gate.checks:
        nfr = report.rates.nfr
        said = f"NFR {percent(nfr.value)}  ({_counted(report, nfr)})"
        return f"OLD and NEW are the same model: {said}" if report.identical else said
    limits = [_at_length(report, gate.checks[0])] if len(gate.checks) == 1 else _limits(report)
    return f"{_state(report).upper()}  {'; '.join(limits)}"


def _limits(report: FlipReport, *, in_title: bool = False) -> list[str]:
    """The limits of each answer, those first by which the gate has its state."""
    by_answer: dict[str, list[GateCheck]] = {"fail": [], "undecided": [], "pass": []}
    for check in report.gate.checks:
        by_answer[check.answer].append(check)
    failed, undecided, kept = by_answer.values()
    groups = {
        "passed": [("", kept), ("undecided, which passes here: ", undecided)],
        "undecided": [("", undecided), ("kept: ", kept)],
        "failed": [("", failed), ("undecided: ", undecided), ("kept: ", kept)],
    }[_state(report)]
    return [
        name + some((_brief(report, check, in_title=in_title) for check in checks), NAMED, "; ")
        for name, checks in groups
        if checks
    ]


def _at_length(report: FlipReport, check: GateCheck) -> str:
    """One limit as ``NFR 5.94 % > limit 3 %  (58 of 976, 95 % interval 4.54 to 7.61)``."""
    kind = KINDS.get(check.name)
    if kind is None:
        return _brief(report, check)
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
    return _brief(report, check)


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


def _against(check: GateCheck, in_title: bool = False) -> str:
    """The limit as it stands behind a value: kept, exceeded, or with a comma where neither is shown."""
    assert check.limit is not None
    kind = KINDS[check.name.partition(" of ")[0]]
    limit = f"{100 * check.limit:g} %" if kind.rate else points(check.limit, sign=False)
    if check.value is None or check.answer == "undecided" or in_title:
        return f", limit {limit}"
    return f" within limit {limit}" if check.answer == "pass" else f" > limit {limit}"


def _brief(report: FlipReport, check: GateCheck, *, in_title: bool = False) -> str:
    """A limit among several, in a title without its count."""
    kind = KINDS.get(check.name.partition(" of ")[0])
    if kind is None:
        return check.message.partition(";")[0]
    of = check.name.removeprefix(kind.name)
    if not kind.rate:
        value = "n/a" if check.value is None else points(check.value)
        return f"error on old classes{of} {value}{_against(check, in_title)}"
    title, rate = report.rates.titled(kind.rate)
    counted = "" if of or in_title else f" ({of_count(rate, check.waived)})"
    return f"{title}{of} {percent(check.value)}{_against(check, in_title)}{counted}"
