"""Put a flip report into words, the same for terminal, Markdown, pages and CI."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from mptctl.errors import some
from mptctl.evaluation.flip_report import FlipReport
from mptctl.evaluation.limits import Looks
from mptctl.evaluation.pairing.sanity import IDENTICAL
from mptctl.evaluation.reading.columns import first
from mptctl.evaluation.statistics import SIGNIFICANT
from mptctl.evaluation.verdict import Gate, GateCheck, WaiverRow
from mptctl.files.explained import shown
from mptctl.report.media.document import State
from mptctl.report.media.numbers import format_interval, of_count, p_value, percent, points

# Limits of each verdict that the verdict line names; the sentences and the JSON have the others.
NAMED = 4
# Limits, waivers and renamed classes with a sentence of their own.
CHECKS, WAIVERS, MAPPED = 20, 10, 5


@dataclass(frozen=True)
class Verdict:
    """The head of a report.

    Attributes:
        state: of the gate; ``ungated`` where no limit is set.
        title: the state and its limits; without a limit the NFR.
        sentences: the reasons, the most important first.
    """

    state: State
    title: str
    sentences: tuple[str, ...]


def slices_sentence(report: FlipReport) -> str:
    """A sentence on the number of slices that are worse than the rest; empty where there are no slices."""
    small = report.small_slices
    if not report.slices and not small:
        return ""
    worse = sum(row.worse for row in report.slices)
    worse_are = {0: "none is", 1: "1 is"}.get(worse, f"{worse:,} are")
    unranked = (
        f"; {small:,} smaller than --min-slice {'is' if small == 1 else 'are'} not ranked" if small else ""
    )
    return f"Of {len(report.slices):,} slices {worse_are} worse than the rest (q < 0.05){unranked}."


def verdict(report: FlipReport) -> Verdict:
    """The head of a report: whether the new model may be released, and why."""
    gate, state = report.gate, gate_state(report.gate)
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
        limits = _limit_groups(report, in_title=True)
        title_limits = limits if state == "passed" else limits[:1]
        title = f"{_state_words(report).capitalize()}: {'; '.join(title_limits)}"
    return Verdict(state, title, sentences)


def gate_state(gate: Gate) -> State:
    """The state of the gate."""
    if not gate.checks:
        return "ungated"
    if gate.passed:
        return "passed"
    return "undecided" if gate.answer == "undecided" else "failed"


def _state_words(report: FlipReport, write: Callable[[str], str] = str) -> str:
    """The state of the gate, as `write` writes it, and whether it passed with waivers alone."""
    with_waivers = report.gate.passed and report.gate.with_waivers
    return write(gate_state(report.gate)) + (" with waivers" if with_waivers else "")


def sentences_beside_line(report: FlipReport) -> tuple[str, ...]:
    """Sentences to print where `verdict_line` gives the verdict; they repeat none of its limits."""
    return (
        *_doubt_sentences(report),
        *(
            _samples_sentence(check, report.gate.looks)
            for check in report.gate.checks[:CHECKS]
            if check.answer == "undecided"
        ),
        *waiver_sentences(report.gate.waivers),
        *further_sentences(report),
    )


def _samples_sentence(check: GateCheck, looks: Looks) -> str:
    """A sentence on how many more samples would decide an undecided limit, if any number would."""
    kind, _, slice_name = check.name.partition(" of ")
    limit, samples_of = (check.name, f" of {slice_name}") if slice_name else (f"--{kind}", " of old classes")
    if looks == "any":
        return f"Add samples{samples_of}, and ask again: {limit} keeps its level."
    if check.more_samples is None:
        return f"No number of samples within reach would settle {limit} at this rate."
    return f"About {check.more_samples:,} more samples{samples_of} would settle {limit} at this rate."


def _doubt_sentences(report: FlipReport) -> list[str]:
    """Sentences on one model given twice and on unfinished runs, unless the gate failed for that."""
    failed = report.gate.failed
    sentences = []
    if report.identical and "identical" not in failed:
        sentences.append(f"{IDENTICAL[0].upper()}{IDENTICAL[1:]}.")
    if "unfinished" not in failed:
        sentences += [f"{sentence}." for sentence in report.unfinished]
    return sentences


def further_sentences(report: FlipReport) -> list[str]:
    """Sentences beside NFR: the change of error, and the results of options that were used.

    The options are renamed classes and a plain comparison.
    """
    change = report.er_difference
    low, high = change.ci95
    # The exact test and the interval can disagree at the edge; noise is said only where both find it.
    is_noise = low <= 0 <= high and report.mcnemar_p >= SIGNIFICANT
    noise = ", no more than sampling noise" if is_noise else ""
    return [
        f"Error on old classes went from {percent(report.old.er_old_classes)} to "
        f"{percent(report.new.er_old_classes)}: {points(change.value)} ({100 * low:+.2f} to "
        f"{100 * high:+.2f}; McNemar {p_value(report.mcnemar_p)}){noise}.",
        *_class_map_sentences(report),
    ]


def _first_sentences(sentences: Sequence[str], most: int, what: str) -> list[str]:
    """The first sentences, and one on how many more there are."""
    if len(sentences) <= most:
        return list(sentences)
    return [*sentences[:most], f"{len(sentences) - most:,} more {what}; all of them are in the JSON."]


def _class_map_sentences(report: FlipReport) -> list[str]:
    """A sentence on each class that has another name in the new model; of many only the first ones."""
    sentences = [
        f"{shown(row.name)} stands for {first(row.old)} of OLD and {first(row.new)} of NEW."
        for row in report.class_map or []
    ]
    return _first_sentences(sentences, MAPPED, "classes have other names in NEW")


def check_sentences(checks: list[GateCheck]) -> list[str]:
    """A sentence on each limit, those that did not pass first; of many only the first ones."""
    ordered = sorted(checks, key=lambda check: check.passed)
    return _first_sentences([f"{check.message}." for check in ordered], CHECKS, "limits")


def waiver_sentences(waivers: list[WaiverRow]) -> list[str]:
    """A sentence on each waiver that covered flips, and one on those that are no longer needed.

    Waivers that have expired or were exceeded have none.
    """
    sentences = [
        f"Waived: {row.flips:,} {'flip' if row.flips == 1 else 'flips'} of {shown(row.name)} "
        f"({shown(row.reason)}; {shown(row.owner)}, until {row.expires})."
        for row in waivers
        if row.flips and not (row.expired or row.exceeded)
    ]
    unneeded = [row.name for row in waivers if not row.flips]
    return [
        *_first_sentences(sentences, WAIVERS, "waivers are used"),
        *([f"No longer needed, to be removed: the waiver of {first(unneeded)}."] if unneeded else []),
    ]


def verdict_line(report: FlipReport) -> str:
    """The verdict and its limits in one line; without a limit the line gives the NFR."""
    gate = report.gate
    if not gate.checks:
        nfr = report.rates.nfr
        nfr_words = (
            f"NFR {percent(nfr.value)}  ({of_count(nfr)}, 95 % interval {format_interval(nfr.ci95)[:-2]})"
        )
        return f"OLD and NEW are the same model: {nfr_words}" if report.identical else nfr_words
    return f"{_state_words(report, str.upper)}  {'; '.join(_limit_groups(report))}"


def _limit_groups(report: FlipReport, *, in_title: bool = False) -> list[str]:
    """The limits in words, a text for each verdict of limits; first those that decided the gate.

    Args:
        report: with at least one limit.
        in_title: leave out counts and intervals.
    """
    failed, undecided, kept = (
        [check for check in report.gate.checks if check.answer == answer]
        for answer in ("fail", "undecided", "pass")
    )
    groups = {
        "passed": [("", kept)],
        "undecided": [("", undecided), ("kept: ", kept)],
        "failed": [("", failed), ("undecided: ", undecided), ("kept: ", kept)],
    }[gate_state(report.gate)]
    return [
        prefix + some([_brief(check, in_title) for check in checks], NAMED, "; ")
        for prefix, checks in groups
        if checks
    ]


def _brief(check: GateCheck, in_title: bool) -> str:
    """A limit in few words; in a title without what stands in brackets."""
    return check.brief.partition("  (")[0] if in_title else check.brief
