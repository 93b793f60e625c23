"""The report of labelled disagreements: flips in the drawn traffic, and in the traffic that it stands for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from mptctl.evaluation.decision import decide
from mptctl.evaluation.gate.check import RELATIONS, VERBS, make_gate
from mptctl.evaluation.gate.history import Look, digest, verdict_of
from mptctl.evaluation.labels.draw import ROLES, Draw, Traffic
from mptctl.evaluation.labels.label_file import FOREIGN, MAYBE, MISSING, NEGATIVE, NEITHER, POSITIVE, Outcomes
from mptctl.evaluation.labels.sampling import LabelPlan, Stratum, difference, flip_shares, plan_labels
from mptctl.evaluation.limits import Limits, Looks
from mptctl.evaluation.rates import Interval
from mptctl.evaluation.statistics import exact_interval, tail_of
from mptctl.evaluation.verdict import Gate, GateCheck
from mptctl.files import Model

# Chosen: most classes, pairs of them, and slices that a report lists.
LISTED = 1_000
# Level of the intervals that a report calls `ci95`, and of one that decides if no other level is asked for.
LEVEL = 0.95


class ChangedPair(Model):
    """Samples whose prediction changes from one class to another."""

    old: str = Field(description="prediction of OLD")
    new: str = Field(description="prediction of NEW")
    samples: int = Field(description="how many")


class Disagreements(Model):
    """Samples whose predictions differ."""

    count: int = Field(description="how many")
    rate: float = Field(description="count / samples")
    ci95: Interval = Field(description="exact 95 % interval of the rate")


class ClassDisagreement(Model):
    """A class that OLD predicts, and how many of these predictions differ."""

    old: str = Field(description="the class")
    n: int = Field(description="samples for which OLD predicts it")
    disagreements: Disagreements = Field(description="those of them for which NEW predicts another class")


class SliceDisagreement(Model):
    """A slice of the traffic, and how many of its predictions differ."""

    by: dict[str, str] = Field(description="its value in each column")
    n: int = Field(description="samples")
    disagreements: Disagreements = Field(description="those of them whose predictions differ")


class DrawnStratum(Model):
    """A stratum of the disagreements."""

    name: str = Field(description="new surer, about as sure, or old surer; empty without strata")
    disagreements: int = Field(description="how many it has")
    count: int = Field(description="how many of them are drawn")


class DrawnRows(Model):
    """The rows of a draw."""

    count: int = Field(description="how many")
    fingerprint: str = Field(description="name of the draw, in the column `draw` before each row's place")


class WrittenRows(DrawnRows):
    """The rows of a draw, and how they are drawn."""

    file: str | None = Field(description="the file of --out; null without it")
    strata: list[DrawnStratum] = Field(description="those that the rows are drawn from; one without --strata")
    seed: int = Field(description="of the random order")


class DisagreeReport(Model):
    """The samples on which two models differ, and what it takes to decide a limit."""

    old: str = Field(description="the model in production")
    new: str = Field(description="its replacement")
    n: int = Field(description="samples of the traffic")
    disagreements: Disagreements = Field(description="samples whose predictions differ")
    flips_at_most: float = Field(
        description="negative flips per sample of this traffic are at most this: no other sample can flip"
    )
    by_class: list[ClassDisagreement] = Field(
        description="by prediction of OLD, most disagreements first; at most 1,000"
    )
    pairs: list[ChangedPair] = Field(description="by both predictions, most first; at most 1,000")
    slices: list[SliceDisagreement] = Field(description="of --by, largest rate first; at most 1,000")
    labels: LabelPlan | None = Field(description="how many decide the limit; null without --limit")
    drawn: WrittenRows = Field(description="the rows to label")


class LabelledShare(Model):
    """A kind of flips per sample, with the intervals that the labels allow."""

    rate: float | None = Field(
        description="estimate, a fraction of samples; null where a stratum has no label"
    )
    ci95: Interval = Field(
        description="95 % interval of the rate in such traffic, which these samples stand for; a gate at "
        "95 % decides by it"
    )
    estimate: float | None = Field(
        description="estimated number of such flips among the samples, rate x samples; null as the rate"
    )
    ci95_this_traffic: Interval = Field(
        description="95 % interval of the rate in these samples; its width is zero once all "
        "disagreements are labelled"
    )
    count: int = Field(description="labels that are such flips; for a change of accuracy the difference")


class LabelledSlice(Model):
    """A slice of the traffic with the flips that its labels allow."""

    by: dict[str, str] = Field(description="its value in each column")
    n: int = Field(description="samples")
    disagreements: int = Field(description="samples whose predictions differ")
    labelled: int = Field(description="labelled disagreements")
    flips: LabelledShare = Field(description="negative flips per sample")


class LabelledReport(Model):
    """The report of a replacement by the labels of a beginning of a draw."""

    old: str = Field(description="the model in production")
    new: str = Field(description="its replacement")
    n: int = Field(description="samples of the traffic")
    disagreements: int = Field(description="samples whose predictions differ")
    drawn: DrawnRows = Field(description="the rows to label")
    labelled: int = Field(description="rows from the first to the last one with a label")
    unsure: int = Field(description="of these: labelled unsure, or left out; they may be any of the three")
    other: int = Field(description="of these: neither prediction is right")
    looks: Looks = Field(description="once: one look after a fixed number of labels; any: after every label")
    flips: LabelledShare = Field(description="negative flips per sample")
    positive_flips: LabelledShare = Field(description="positive flips per sample")
    accuracy_change: LabelledShare = Field(description="accuracy of NEW minus that of OLD")
    nfr: LabelledShare | None = Field(
        description="the NFR: equal to `flips` where both models know the same classes, and no label is "
        "`other`; else null"
    )
    nfr_reason: str = Field(description="why it is null; empty where it is not")
    slices: list[LabelledSlice] = Field(description="of --by, highest rate first; at most 1,000")
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
    draw: Draw, limit: float | None, level: float, slices: Sequence[Groups] = (), file: Path | None = None
) -> DisagreeReport:
    """Report how many predictions differ, where they do, and how many labels decide a limit.

    Args:
        draw: the rows to label.
        limit: of negative flips per sample, a fraction; None: not set.
        level: of the two-sided interval that decides it.
        slices: the keys of slices.
        file: the rows are written to it; None: to no file.
    """
    traffic = draw.traffic
    names = traffic.pairing.vocabulary
    old, new = (traffic.answers(role).astype(np.int64) for role in ROLES)
    pairs, counts = np.unique(old * len(names) + new, return_counts=True)
    most = np.argsort(-counts, kind="stable")[:LISTED]
    rows = len(traffic)
    total = len(traffic.pairing)
    by_slice = [
        SliceDisagreement(by=dict(by), n=samples, disagreements=_disagreements(differ, samples))
        for groups in slices
        for by, differ, samples in zip(
            groups.by, groups.sizes(traffic.numbers).tolist(), groups.sizes().tolist(), strict=True
        )
    ]
    samples_of = traffic.pairing.models["old"].table.answers
    changed = dict(zip(names, np.bincount(old, minlength=len(names)).tolist(), strict=True))
    classes = sorted(samples_of, key=lambda name: -changed[name])[:LISTED]
    everywhere = _disagreements(rows, total)
    return DisagreeReport(
        old=traffic.pairing.models["old"].name,
        new=traffic.pairing.models["new"].name,
        n=total,
        disagreements=everywhere,
        flips_at_most=everywhere.rate,
        by_class=[
            ClassDisagreement(
                old=name, n=samples_of[name], disagreements=_disagreements(changed[name], samples_of[name])
            )
            for name in classes
        ],
        pairs=[
            ChangedPair(old=names[pair // len(names)], new=names[pair % len(names)], samples=count)
            for pair, count in zip(pairs[most].tolist(), counts[most].tolist(), strict=True)
        ],
        slices=sorted(by_slice, key=lambda each: -each.disagreements.rate)[:LISTED],
        labels=None if limit is None else plan_labels(rows, total, limit, level),
        drawn=WrittenRows(
            file=None if file is None else str(file),
            count=len(draw),
            strata=[
                DrawnStratum(name=name, disagreements=size, count=drawn)
                for name, size, drawn in zip(
                    draw.names, draw.sizes().tolist(), draw.sizes(draw.order).tolist(), strict=True
                )
            ],
            seed=draw.seed,
            fingerprint=draw.fingerprint,
        ),
    )


def _disagreements(count: int, samples: int) -> Disagreements:
    """The disagreements of at least one sample with their rate."""
    return Disagreements(count=count, rate=count / samples, ci95=exact_interval(count, samples))


def report_labels(
    outcomes: Outcomes,
    limit: float | None,
    rules: Limits,
    slices: Sequence[Groups] = (),
    warnings: Sequence[str] = (),
) -> LabelledReport:
    """Report what labels say of flips, and hold them against a limit.

    Every interval is one of 95 %, but that of the limit has the level of `rules`; each end has one half of
    the error. The interval of the change of accuracy is made of the intervals of both kinds of flips, each
    with half of the error.

    Args:
        outcomes: the labels.
        limit: of negative flips per sample, a fraction; None: not set.
        rules: confidence and looks; its own limits are not read.
        slices: the keys of slices.
        warnings: further remarks.
    """
    draw = outcomes.draw
    looks = rules.looks
    tail = tail_of(LEVEL)
    pairing = draw.traffic.pairing
    total = len(pairing)
    strata = [outcomes.strata(kind) for kind in (NEGATIVE, POSITIVE)]
    negative, positive = (_share(each, total, tail, looks) for each in strata)
    lost, won = (flip_shares(each, total, tail / 2, looks) for each in strata)
    reason = why_no_nfr(draw.traffic, outcomes)
    remarks = list(warnings)
    if missing := outcomes.count(MISSING):
        remarks.append(f"{missing:,} rows before the last label have none, and count as unsure")
    return LabelledReport(
        old=pairing.models["old"].name,
        new=pairing.models["new"].name,
        n=total,
        disagreements=len(draw.traffic),
        drawn=DrawnRows(count=len(draw), fingerprint=draw.fingerprint),
        labelled=len(outcomes.said),
        unsure=outcomes.count(MAYBE, MISSING),
        other=outcomes.count(NEITHER, FOREIGN),
        looks=looks,
        flips=negative,
        positive_flips=positive,
        accuracy_change=LabelledShare(
            rate=_less(positive.rate, negative.rate),
            ci95=difference(won.population, lost.population),
            estimate=_less(positive.estimate, negative.estimate),
            ci95_this_traffic=difference(won.drawn, lost.drawn),
            count=positive.count - negative.count,
        ),
        nfr=None if reason else negative,
        nfr_reason=reason,
        slices=_slices(outcomes, slices, tail, looks),
        gate=make_gate(rules, [] if limit is None else [_check(outcomes, negative, limit, rules)]),
        warnings=remarks,
    )


def _less(one: float | None, other: float | None) -> float | None:
    """Subtract an estimate from another one; None if one of the two is missing."""
    return None if one is None or other is None else one - other


def make_look(report: LabelledReport, today: date, tag: str | None) -> Look:
    """Make the line of a history from what labels say; the same labels again have the same fingerprint."""
    decided = [check.interval for check in report.gate.checks if check.interval is not None]
    return Look(
        **report.model_dump(include={"old", "new", "n", "labelled", "looks"}),
        date=today,
        tag=tag,
        draw=report.drawn.fingerprint,
        flips=report.flips.rate,
        interval=decided[0] if decided else report.flips.ci95,
        confidence=report.gate.confidence or LEVEL if decided else LEVEL,
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
        rate=flips / total if estimated else None,
        ci95=shares.population,
        estimate=flips if estimated else None,
        ci95_this_traffic=shares.drawn,
        count=sum(each.flips for each in strata),
    )


def _slices(outcomes: Outcomes, slices: Sequence[Groups], tail: float, looks: Looks) -> list[LabelledSlice]:
    """The slices with samples that can flip; in a slice, too, the order of the labels is random."""
    rows = []
    for groups in slices:
        samples = groups.sizes().tolist()
        slice_of_row = groups.code[outcomes.draw.traffic.numbers]
        for index in np.unique(slice_of_row)[:LISTED].tolist():
            strata = outcomes.strata(NEGATIVE, slice_of_row == index)
            rows.append(
                LabelledSlice(
                    by=dict(groups.by[index]),
                    n=samples[index],
                    disagreements=sum(each.rows for each in strata),
                    labelled=sum(each.labelled for each in strata),
                    flips=_share(strata, samples[index], tail, looks),
                )
            )
    return sorted(rows, key=lambda row: -(row.flips.rate or 0))[:LISTED]


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
    level, total = rules.confidence or LEVEL, len(outcomes.draw.traffic.pairing)
    interval = flip_shares(outcomes.strata(NEGATIVE), total, tail_of(level), rules.looks).population
    answer = decide(interval, limit)
    rate = "n/a" if flips.rate is None else f"{100 * flips.rate:.2f} %"
    title = f"negative flips per sample {rate}"
    low, high = interval
    ends = f"{100 * level:.10g} % interval {100 * low:.2f} to {100 * high:.2f}"
    shown = f"{100 * limit:g} %"
    message = f"{title} ({ends} %) {VERBS[answer]} the limit of {shown}"
    if answer == "undecided":
        message += f"; {outcomes.advise_more(rules.looks)}"
    return GateCheck(
        name="max-flip-rate",
        limit=limit,
        value=flips.rate,
        interval=interval,
        answer=answer,
        counted=flips.count,
        passed=answer == "pass",
        message=message,
        brief=f"{title}{RELATIONS[answer]}{shown}  ({len(outcomes.said):,} labels, {ends})",
    )
