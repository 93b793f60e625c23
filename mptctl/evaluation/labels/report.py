"""The report of labelled disagreements: flips in the drawn traffic, and in the traffic that it stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from mptctl.evaluation.decision import decide
from mptctl.evaluation.gate.check import RELATIONS, VERBS, make_gate
from mptctl.evaluation.gate.history import Look, digest, verdict_of
from mptctl.evaluation.labels.draw import ROLES, Draw, Traffic
from mptctl.evaluation.labels.label_file import (
    FOREIGN,
    MAYBE,
    MISSING,
    NEGATIVE,
    NEITHER,
    POSITIVE,
    Outcomes,
)
from mptctl.evaluation.labels.sampling import LabelPlan, Stratum, difference, flip_shares, plan_labels
from mptctl.evaluation.limits import Limits, Looks
from mptctl.evaluation.rates import Interval, Rate
from mptctl.evaluation.statistics import rate, tail_of
from mptctl.evaluation.verdict import Gate, GateCheck
from mptctl.files import Model

# Chosen: most pairs of answers, and slices, that a report lists.
LISTED = 1_000


class ChangedPair(Model):
    """Samples whose prediction changes from one class to another."""

    old: str = Field(description="prediction of OLD")
    new: str = Field(description="prediction of NEW")
    samples: int = Field(description="how many")


class SliceDisagreement(Model):
    """A slice of the traffic, and how many of its predictions differ."""

    by: dict[str, str] = Field(description="its value in each column")
    differ: Rate = Field(description="samples whose predictions differ / samples")


class DrawnStratum(Model):
    """A stratum of the disagreements."""

    name: str = Field(description="new surer, about as sure, or old surer; empty without strata")
    rows: int = Field(description="disagreements")
    drawn: int = Field(description="how many of them are drawn")


class DisagreeReport(Model):
    """The samples on which two models differ, and what it takes to decide a limit."""

    old: str = Field(description="the model in production")
    new: str = Field(description="its replacement")
    differ: Rate = Field(description="samples whose predictions differ / samples: at most these can flip")
    pairs: list[ChangedPair] = Field(description="by both predictions, most first; at most 1,000")
    slices: list[SliceDisagreement] = Field(description="of --by, largest share first; at most 1,000")
    strata: list[DrawnStratum] = Field(description="of the draw")
    plan: LabelPlan | None = Field(description="null without --limit")
    fingerprint: str = Field(description="of the draw")
    drawn: int = Field(description="rows of the draw")


class LabelledShare(Model):
    """A kind of flips per sample, with the intervals that the labels allow."""

    value: float | None = Field(
        description="estimate, a fraction of samples; null where a stratum has no label"
    )
    count: int = Field(description="labels that are such flips; for a change of accuracy the difference")
    drawn: Interval = Field(
        description="of the drawn traffic; its width is zero once all disagreements are labelled"
    )
    population: Interval = Field(description="of the traffic that it stands for, by which a gate decides")


class LabelledSlice(Model):
    """A slice of the traffic with the flips that its labels allow."""

    by: dict[str, str] = Field(description="its value in each column")
    n: int = Field(description="samples")
    differ: int = Field(description="samples whose predictions differ")
    labelled: int = Field(description="labelled disagreements")
    negative_flips: LabelledShare = Field(description="negative flips per sample")


class LabelledReport(Model):
    """The report of a replacement by the labels of a beginning of a draw."""

    old: str = Field(description="the model in production")
    new: str = Field(description="its replacement")
    n: int = Field(description="samples of the traffic")
    differ: int = Field(description="samples whose predictions differ")
    drawn: int = Field(description="rows of the draw")
    labelled: int = Field(description="rows from the first to the last one with a label")
    unsure: int = Field(description="of these: labelled unsure, or left out; they may be any of the three")
    other: int = Field(description="of these: neither prediction is right")
    confidence: float = Field(description="level of the two-sided intervals")
    looks: Looks = Field(description="once: one look after a fixed number of labels; any: after every label")
    negative_flips: LabelledShare = Field(description="negative flips per sample")
    positive_flips: LabelledShare = Field(description="positive flips per sample")
    accuracy_change: LabelledShare = Field(description="accuracy of NEW minus that of OLD")
    nfr: float | None = Field(description="the NFR; null where flips per sample are not the NFR")
    nfr_reason: str = Field(description="why not; empty where they are")
    slices: list[LabelledSlice] = Field(description="of --by, highest rate first; at most 1,000")
    fingerprint: str = Field(description="of the draw")
    gate: Gate = Field(description="the verdict")
    warnings: list[str] = Field(description="remarks")


class Groups(NamedTuple):
    """The slices by one key: (N,) the slice of each sample, and the values of each slice by column."""

    code: NDArray[np.int64]
    by: Sequence[Mapping[str, str]]

    def sizes(self, chosen: NDArray[np.int64] | slice = slice(None)) -> NDArray[np.int64]:
        """Count the samples, or some of them, in each slice."""
        return np.bincount(self.code[chosen], minlength=len(self.by))


def report_disagreement(
    draw: Draw, limit: float | None, level: float, slices: Sequence[Groups] = ()
) -> DisagreeReport:
    """Report how many predictions differ, where they do, and how many labels decide a limit, a fraction."""
    traffic, names = draw.traffic, draw.traffic.pairing.vocabulary
    old, new = (traffic.answers(role).astype(np.int64) for role in ROLES)
    pairs, counts = np.unique(old * len(names) + new, return_counts=True)
    most = np.argsort(-counts, kind="stable")[:LISTED]
    rows, total = len(traffic), len(traffic.pairing)
    by_slice = [
        SliceDisagreement(by=dict(by), differ=rate(differ, samples))
        for groups in slices
        for by, differ, samples in zip(
            groups.by, groups.sizes(traffic.numbers).tolist(), groups.sizes().tolist(), strict=True
        )
    ]
    return DisagreeReport(
        old=traffic.pairing.models["old"].name,
        new=traffic.pairing.models["new"].name,
        differ=rate(rows, total),
        pairs=[
            ChangedPair(old=names[pair // len(names)], new=names[pair % len(names)], samples=count)
            for pair, count in zip(pairs[most].tolist(), counts[most].tolist(), strict=True)
        ],
        slices=sorted(by_slice, key=lambda each: -(each.differ.value or 0))[:LISTED],
        strata=[
            DrawnStratum(name=name, rows=size, drawn=drawn)
            for name, size, drawn in zip(
                draw.names, draw.sizes().tolist(), draw.sizes(draw.order).tolist(), strict=True
            )
        ],
        plan=None if limit is None else plan_labels(rows, total, limit, level),
        fingerprint=draw.fingerprint,
        drawn=len(draw),
    )


def report_labels(
    outcomes: Outcomes,
    limit: float | None,
    rules: Limits,
    slices: Sequence[Groups] = (),
    warnings: Sequence[str] = (),
) -> LabelledReport:
    """Report what labels say of flips, and hold them against a limit.

    Every interval has the level of `rules`, each end one half of its error. That of the change of accuracy is
    made of the intervals of both kinds of flips, each with half of the error.

    Args:
        outcomes: the labels.
        limit: of negative flips per sample, a fraction; None: not set.
        rules: confidence and looks; its own limits are not read.
        slices: the keys of slices.
        warnings: further remarks.
    """
    draw, looks, level = outcomes.draw, rules.looks, rules.confidence or 0.95
    models, total, tail = draw.traffic.pairing.models, len(draw.traffic.pairing), tail_of(level)
    strata = {kind: outcomes.strata(kind) for kind in (NEGATIVE, POSITIVE)}
    negative, positive = (_share(each, total, tail, looks) for each in strata.values())
    lost, won = (flip_shares(each, total, tail / 2, looks) for each in strata.values())
    reason, missing = why_no_nfr(draw.traffic, outcomes), outcomes.count(MISSING)
    return LabelledReport(
        old=models["old"].name,
        new=models["new"].name,
        n=total,
        differ=len(draw.traffic),
        drawn=len(draw),
        labelled=len(outcomes.said),
        unsure=outcomes.count(MAYBE, MISSING),
        other=outcomes.count(NEITHER, FOREIGN),
        confidence=level,
        looks=looks,
        negative_flips=negative,
        positive_flips=positive,
        accuracy_change=LabelledShare(
            value=None
            if negative.value is None or positive.value is None
            else positive.value - negative.value,
            count=positive.count - negative.count,
            drawn=difference(won.drawn, lost.drawn),
            population=difference(won.population, lost.population),
        ),
        nfr=None if reason else negative.value,
        nfr_reason=reason,
        slices=_slices(outcomes, slices, tail, looks),
        fingerprint=draw.fingerprint,
        gate=make_gate(rules, [] if limit is None else [_check(outcomes, negative, limit, rules)]),
        warnings=[*warnings, *_warnings_on_missing(missing)],
    )


def _warnings_on_missing(missing: int) -> list[str]:
    """Return a warning on rows before the last label that have none, by their number; none for 0."""
    if not missing:
        return []
    return [f"{missing:,} rows before the last label have none, and count as unsure"]


def make_look(report: LabelledReport, today: date, tag: str | None) -> Look:
    """Make the line of a history from what labels say; the same labels again have the same fingerprint."""
    return Look(
        **report.model_dump(include={"old", "new", "n", "labelled", "confidence", "looks"}),
        date=today,
        tag=tag,
        draw=report.fingerprint,
        flips=report.negative_flips.value,
        interval=report.negative_flips.population,
        verdict=verdict_of(report.gate),
        fingerprint=digest(report.model_dump_json(exclude={"slices", "warnings"})),
    )


def _share(strata: Sequence[Stratum], total: int, tail: float, looks: Looks) -> LabelledShare:
    """Put the estimate of flips per sample beside its intervals; rows that may be flips are left out."""
    shares = flip_shares(strata, total, tail, looks)
    certain = [each.labelled - each.unsure for each in strata]
    estimated = all(n or not each.rows for n, each in zip(certain, strata, strict=True))
    flips = sum(each.rows * each.flips / n for n, each in zip(certain, strata, strict=True) if n)
    return LabelledShare(
        value=flips / total if estimated else None,
        count=sum(each.flips for each in strata),
        drawn=shares.drawn,
        population=shares.population,
    )


def _slices(outcomes: Outcomes, slices: Sequence[Groups], tail: float, looks: Looks) -> list[LabelledSlice]:
    """The slices with samples that can flip; in a slice, too, the order of the labels is random."""
    rows, traffic = [], outcomes.draw.traffic
    for groups in slices:
        samples, of_rows = groups.sizes().tolist(), groups.code[traffic.numbers]
        for place in np.unique(of_rows)[:LISTED].tolist():
            strata = outcomes.strata(NEGATIVE, of_rows == place)
            rows.append(
                LabelledSlice(
                    by=dict(groups.by[place]),
                    n=samples[place],
                    differ=sum(each.rows for each in strata),
                    labelled=sum(each.labelled for each in strata),
                    negative_flips=_share(strata, samples[place], tail, looks),
                )
            )
    return sorted(rows, key=lambda row: -(row.negative_flips.value or 0))[:LISTED]


def why_no_nfr(traffic: Traffic, outcomes: Outcomes) -> str:
    """Say why flips per sample are not the NFR, of samples of old classes alone; empty if they are."""
    old, new = (traffic.pairing.models[role].classes for role in ROLES)
    if old is None or new is None:
        return "a model does not say which classes it knows; add `classes` to its file"
    if set(old) != set(new):
        return "the models know different classes, and the traffic may hold some that OLD does not know"
    if foreign := outcomes.count(FOREIGN):
        return f"{foreign:,} labels are `other`: OLD may not know the class"
    return ""


def _check(outcomes: Outcomes, flips: LabelledShare, limit: float, rules: Limits) -> GateCheck:
    """Hold negative flips per sample against a limit, by the interval of the traffic that was drawn from."""
    answer, level = decide(flips.population, limit), rules.confidence or 0.95
    title = f"negative flips per sample {'n/a' if flips.value is None else f'{100 * flips.value:.2f} %'}"
    low, high = (f"{100 * end:.2f}" for end in flips.population)
    interval, shown = f"{100 * level:.10g} % interval {low} to {high}", f"{100 * limit:g} %"
    message = f"{title} ({interval} %) {VERBS[answer]} the limit of {shown}"
    if answer == "undecided":
        rest = len(outcomes.draw.traffic) - len(outcomes.said)
        more = f"label more of the {rest:,} other rows"
        message += f"; {more if rest else 'all rows are labelled: it takes more traffic'}"
    return GateCheck(
        name="max-flip-rate",
        limit=limit,
        value=flips.value,
        interval=flips.population,
        answer=answer,
        counted=flips.count,
        passed=answer == "pass",
        message=message,
        brief=f"{title}{RELATIONS[answer]}{shown}  ({len(outcomes.said):,} labels, {interval})",
    )
