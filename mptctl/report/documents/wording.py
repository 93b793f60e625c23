"""Put a flip report into words, the same for terminal, Markdown, pages and CI."""

from __future__ import annotations

from collections.abc import Sequence

from mptctl.errors import some
from mptctl.evaluation.flip_report import FlipReport
from mptctl.evaluation.gate.history import verdict_of
from mptctl.evaluation.limits import Looks
from mptctl.evaluation.pairing.sanity import IDENTICAL
from mptctl.evaluation.rates import Rate
from mptctl.evaluation.reading.columns import first
from mptctl.evaluation.statistics import SIGNIFICANT
from mptctl.evaluation.verdict import Gate, GateCheck, WaiverRow
from mptctl.files.explained import shown
from mptctl.report.media.numbers import counted, format_interval, of_count, p_value, percent, points

# Limits of each verdict that the verdict line names; the sentences and the JSON have the others.
NAMED = 4
# Limits, waivers and renamed classes with a sentence of their own.
CHECKS, WAIVERS, MAPPED = 20, 10, 5


def slices_sentence(report: FlipReport) -> str:
    """A sentence on the number of slices that are worse than the rest; empty where there are no slices."""
    small = report.small_slices
    if not report.slices and not small:
        return ""
    worse = sum(row.worse for row in report.slices)
    worse_are = f"{worse:,} {'is' if worse == 1 else 'are'}" if worse else "none is"
    sentence = f"Of {len(report.slices):,} slices {worse_are} worse than the rest (q < 0.05)"
    if small:
        sentence += f"; {small:,} smaller than --min-slice {'is' if small == 1 else 'are'} not ranked"
    return f"{sentence}."


def verdict_sentences(report: FlipReport) -> list[str]:
    """Sentences on whether the new model may be released, the most important first."""
    return [
        *_doubt_sentences(report),
        *check_sentences(report.gate.checks),
        *waiver_sentences(report.gate.waivers),
        _nfr_sentence(report.rates.nfr),
        *further_sentences(report),
    ]


def verdict_title(report: FlipReport) -> str:
    """The verdict, and the limits that decided it; without a limit the NFR."""
    gate = report.gate
    if gate.checks:
        decisive = _limit_groups(gate.checks, in_title=True)[0]
        return f"{verdict_of(gate).capitalize()}{_waivers_words(gate)}: {decisive}"
    return "OLD and NEW are the same model" if report.identical else f"NFR {percent(report.nfr)}"


def _nfr_sentence(nfr: Rate) -> str:
    """A sentence on the negative flips and their rate."""
    return (
        f"Of {nfr.of:,} test samples of old classes, {nfr.count:,} that the old model got right "
        f"{'is' if nfr.count == 1 else 'are'} wrong now: NFR {percent(nfr.value)} (95 % interval "
        f"{format_interval(nfr.ci95)})."
    )


def _waivers_words(gate: Gate) -> str:
    """Words for a gate that passed with waivers alone; empty for others."""
    return " with waivers" if gate.passed and gate.with_waivers else ""


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
    slice_name = check.name.partition(" of ")[2]
    limit = check.name if slice_name else f"--{check.name}"
    samples = f"samples of {slice_name or 'old classes'}"
    if looks == "any":
        return f"Add {samples}, and ask again: {limit} keeps its level."
    if check.more_samples is None:
        return f"No number of samples within reach would settle {limit} at this rate."
    return f"About {check.more_samples:,} more {samples} would settle {limit} at this rate."


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
        f"Waived: {counted(row.flips, 'flip', 'flips')} of {shown(row.name)} "
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
    if gate.checks:
        limits = "; ".join(_limit_groups(gate.checks))
        return f"{verdict_of(gate).upper()}{_waivers_words(gate)}  {limits}"
    nfr = report.rates.nfr
    words = f"NFR {percent(nfr.value)}  ({of_count(nfr)}, 95 % interval {format_interval(nfr.ci95)[:-2]})"
    return f"OLD and NEW are the same model: {words}" if report.identical else words


def _limit_groups(all_checks: Sequence[GateCheck], *, in_title: bool = False) -> list[str]:
    """The limits in words, a text for each verdict of limits; first those that decided the gate.

    Args:
        all_checks: of the gate.
        in_title: leave out counts and intervals, which stand in brackets.
    """
    groups: list[str] = []
    for answer, words in (("fail", "failed"), ("undecided", "undecided"), ("pass", "kept")):
        checks = [check.brief for check in all_checks if check.answer == answer]
        if in_title:
            checks = [brief.partition("  (")[0] for brief in checks]
        if checks:
            # The verdict of the gate stands before the first group and names it.
            prefix = f"{words}: " if groups else ""
            groups.append(prefix + some(checks, NAMED, "; "))
    return groups
