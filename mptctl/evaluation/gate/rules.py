"""The rules of a gate file held against a comparison: limits of slices, samples to keep, and waivers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import NamedTuple

from mptctl.errors import DataError, UsageError, option, some
from mptctl.evaluation.gate.check import Scope, check_gate, failed_condition
from mptctl.evaluation.gate.gate_file import GateFile, ListedIds, SliceLimits, Waiver
from mptctl.evaluation.limits import Limits
from mptctl.evaluation.pairing.confusion import LIKELY_CAUSE, by_chance_sentence, may_be_by_chance
from mptctl.evaluation.reading.columns import first
from mptctl.evaluation.slices.source import NamedSample, Slice, SliceSource, slice_name
from mptctl.evaluation.verdict import Gate, GateCheck, WaiverRow
from mptctl.files.explained import shown


def today_in_utc() -> date:
    """Today's date in UTC, by which waivers expire: the same in every time zone."""
    return datetime.now(UTC).date()


class GateVerdict(NamedTuple):
    """The verdict on a comparison, and the flips that its rules name.

    Attributes:
        gate: the verdict.
        waived: ids of the flips that are waived.
        must_keep: ids of the flips of samples that must be kept, waived or not.
    """

    gate: Gate
    waived: frozenset[str]
    must_keep: frozenset[str]


def evaluate_gate(
    source: SliceSource,
    rules: GateFile,
    limits: Limits,
    today: date,
    *,
    identical: bool,
    unfinished: Sequence[str],
) -> GateVerdict:
    """Judge a comparison by limits and by the rules of a gate file.

    A waived flip counts neither in the value of any limit nor for `must_keep`. It still counts as a sample,
    as a right answer of OLD and as an error of NEW, because the new model is wrong there whoever agreed to
    it. So no denominator shrinks, and the error increase does not change. It also counts in every interval; a
    limit that is only kept without the waived flips passes with waivers, at no level.

    Args:
        source: the samples by the columns that the rules name.
        rules: the gate file; an empty one where none is given.
        limits: those of flags and file, merged.
        today: in UTC; waivers that expired before this day are not valid.
        identical: old and new are one model.
        unfinished: a sentence on each model whose run did not end.

    Raises:
        DataError: an id or a slice of the rules has no sample of an old class.
        UsageError: a limit on Rel-NFR that no table of so many samples can exceed.
    """
    keep = rules.must_keep
    ids = dict.fromkeys([*keep.ids, *(waiver.id for waiver in rules.waivers if waiver.id is not None)])
    named = source.named(list(ids))
    _refuse_ids_that_cannot_flip(list(ids), named, rules.listed)
    for by in [*(rule.by for rule in rules.slices), *(waiver.by for waiver in rules.waivers), keep.by]:
        if by is not None:
            _require_slice(source, by)
    applied = _apply_waivers(source, rules.waivers, named, today)
    waived = applied.flips
    checks = [*applied.checks]
    must_keep = frozenset(each for each in keep.ids if named[each].flipped)
    if keep.by is not None:
        must_keep |= source.flips_in([keep.by])[0]
    if keep.ids or keep.by is not None:
        checks.append(_check_must_keep(source, rules, named, must_keep, waived))
    checks += _check_old_in_slices(source, [rule.by for rule in rules.slices])
    counts = source.answers.counts()
    scopes = _scopes_of_slices(source, rules, limits, waived)
    rules.check_reach([counts.total, *(scope.counts.total for scope in scopes)])
    gate = check_gate(
        counts,
        limits,
        identical=identical,
        unfinished=unfinished,
        old_faults=source.answers.old_faults,
        waived=len(waived),
        scopes=scopes,
        rules=checks,
    )
    return GateVerdict(gate.model_copy(update={"waivers": applied.rows}), waived, must_keep)


class AppliedWaivers(NamedTuple):
    """What waivers did to the flips of a comparison.

    Attributes:
        rows: all waivers, for the report.
        flips: ids of the flips that valid waivers cover.
        checks: a failed check for each invalid waiver that a flip still needs.
    """

    rows: list[WaiverRow]
    flips: frozenset[str]
    checks: list[GateCheck]


def _apply_waivers(
    source: SliceSource, waivers: Sequence[Waiver], named: Mapping[str, NamedSample], today: date
) -> AppliedWaivers:
    """Find the flips that valid waivers cover, and fail each invalid waiver that a flip still needs.

    A waiver is invalid after its last day, or where its slice has more flips than were agreed to.
    """
    covered = _flips_of_waivers(source, waivers, named)
    rows = [
        WaiverRow(
            name=str(waiver.id) if waiver.by is None else slice_name(waiver.by),
            reason=waiver.reason,
            owner=waiver.owner,
            expires=waiver.expires,
            expired=waiver.expires < today,
            max_flips=waiver.max_flips,
            exceeded=waiver.max_flips is not None and len(flips) > waiver.max_flips,
            flips=len(flips),
        )
        for waiver, flips in zip(waivers, covered, strict=True)
    ]
    # Many waivers may be of one slice, whose large set of flips is then looked at once.
    valid = {flips for row, flips in zip(rows, covered, strict=True) if not row.expired and not row.exceeded}
    waived = frozenset[str]().union(*valid)
    not_waived = {flips: sorted(flips - waived) for flips in set(covered)}
    checks = [
        _fail_waiver(row, not_waived[flips])
        for row, flips in zip(rows, covered, strict=True)
        if (row.expired or row.exceeded) and not_waived[flips]
    ]
    return AppliedWaivers(rows, waived, checks)


def _scopes_of_slices(
    source: SliceSource, rules: GateFile, limits: Limits, waived: frozenset[str]
) -> list[Scope]:
    """A scope with its own limits for each slice of the gate file; `limits` say at which confidence."""
    # Without a waived flip, the flips of slices need not be read.
    no_flips = [waived] * len(rules.slices)
    flips_of_slices = source.flips_in([rule.by for rule in rules.slices]) if waived else no_flips
    return [
        Scope(
            name=slice_name(rule.by),
            counts=_require_slice(source, rule.by).counts,
            limits=_limits_of_slice(rule, limits),
            waived=len(waived & flips),
        )
        for rule, flips in zip(rules.slices, flips_of_slices, strict=True)
    ]


def _limits_of_slice(rule: SliceLimits, limits: Limits) -> Limits:
    """The limits of a slice of the gate file, at the confidence of `limits`; UsageError names the slice."""
    try:
        return Limits(**rule.fractions(), confidence=limits.confidence, looks=limits.looks)
    except UsageError as error:
        raise UsageError(f"slice {slice_name(rule.by)}: {error}") from error


def _check_old_in_slices(source: SliceSource, every: Sequence[Mapping[str, str]]) -> list[GateCheck]:
    """Make a failed check of each slice in which OLD is never right, or no better than chance.

    Every slice has the condition of the whole test set. One difference: a kappa of 0 or less is a fault only
    where OLD is right on few samples of the slice (`may_be_by_chance`).
    """
    slices = {slice_name(by): _require_slice(source, by) for by in every}
    doubtful = {
        name: found
        for name, found in slices.items()
        if may_be_by_chance(found.counts.old_right, found.counts.total)
    }
    confusions = source.confusions_in([found.by for found in doubtful.values()])
    failed = []
    for name, confusion in zip(doubtful, confusions, strict=True):
        kappa = confusion.kappa
        if not confusion.right:
            sentence = f"OLD is wrong on all {confusion.total:,} samples of {name}: nothing can be lost there"
            failed.append(
                failed_condition(f"old-never-right of {name}", f"{sentence}; remove this slice, or mend OLD")
            )
        elif kappa is not None and kappa <= 0:
            sentence = by_chance_sentence(confusion, f"of {name}")
            failed.append(failed_condition(f"old-by-chance of {name}", f"{sentence} there; {LIKELY_CAUSE}"))
    return failed


def _require_slice(source: SliceSource, by: Mapping[str, str]) -> Slice:
    """Return the slice with these values by column; DataError where it has no sample of an old class."""
    found = source.find(by)
    if found is None:
        raise DataError(
            f"{option('gate')}: the slice {shown(slice_name(by))} has no test sample of an old class; "
            "correct it, or remove it"
        )
    return found


def _refuse_ids_that_cannot_flip(
    ids: Sequence[str], named: Mapping[str, NamedSample], listed: ListedIds | None
) -> None:
    """Refuse ids of no sample, or of samples of new classes: a rule on these would never fail.

    Args:
        ids: the ids of all rules.
        named: the samples that have these ids.
        listed: the ids among these that a file lists; messages name their lines and not the ids.

    Raises:
        DataError: there are such ids.
    """
    unknown = [each for each in ids if each not in named]
    _refuse_ids(unknown, listed, "name no sample of the test set", "not in the test set")
    of_new = [each for each in ids if not named[each].of_old]
    _refuse_ids(of_new, listed, "name samples of new classes", "of new classes, which cannot flip")


def _refuse_ids(ids: Sequence[str], listed: ListedIds | None, lines_do: str, ids_are: str) -> None:
    """Raise DataError if there are ids that are wrong; the last two arguments say what is wrong with them."""
    if listed is not None and (numbers := sorted(listed.lines[each] for each in ids if each in listed.lines)):
        raise DataError(
            f"{option('gate')}: {listed.path}: lines {some(numbers)} {lines_do}; correct them, or remove them"
        )
    if ids:
        raise DataError(
            f"{option('gate')}: {len(ids)} ids are {ids_are} ({first(ids)}); correct them, or remove them"
        )


def _flips_of_waivers(
    source: SliceSource, waivers: Sequence[Waiver], named: Mapping[str, NamedSample]
) -> list[frozenset[str]]:
    """Find the flips that each waiver covers, valid or not, in the order of the waivers.

    All slices by the same columns are looked up in one query.
    """
    flips_of_slices = iter(source.flips_in([waiver.by for waiver in waivers if waiver.by is not None]))
    return [
        next(flips_of_slices)
        if waiver.id is None
        else frozenset([waiver.id] if named[waiver.id].flipped else [])
        for waiver in waivers
    ]


def _fail_waiver(row: WaiverRow, flips: Sequence[str]) -> GateCheck:
    """Make the failed check of a waiver that has expired or was exceeded, and that some flips still need."""
    waiver = f"the waiver of {shown(row.name)} ({shown(row.owner)}: {shown(row.reason)})"
    if row.expired:
        still_need = "1 flip still needs" if len(flips) == 1 else f"{len(flips):,} flips still need"
        message = f"expired on {row.expires}, and {still_need} it ({first(flips)}); renew it"
        return failed_condition("expired-waiver", f"{waiver} {message}, or mend the model")
    message = f"is for at most {row.max_flips:,} flips, and there are {row.flips:,}"
    return failed_condition(
        "exceeded-waiver",
        f"{waiver} {message}; this waiver covers none of them; agree to more, or mend the model",
    )


def _check_must_keep(
    source: SliceSource,
    rules: GateFile,
    named: Mapping[str, NamedSample],
    flips: frozenset[str],
    waived: frozenset[str],
) -> GateCheck:
    """Check that no sample that must be kept flips, and that OLD gets some of the samples of each rule right.

    Args:
        source: the samples.
        rules: the gate file, which names the samples.
        named: the samples of its ids.
        flips: ids of those samples that flip.
        waived: ids of all waived flips; these do not count.
    """
    counted, waived_here = sorted(flips - waived), flips & waived
    kept = _count_kept(source, rules, named)
    if kept.unprotected:
        where = "; on all ".join(kept.unprotected)
        message = f"OLD is wrong on all {where}; so none of these can flip; correct the list"
        if counted:
            message += f"; and {len(counted):,} samples that must be kept flipped ({first(counted)})"
    elif counted:
        message = f"{len(counted):,} of the samples that must be kept flipped ({first(counted)})"
    elif waived_here:
        message = (
            f"{len(waived_here):,} of the samples that must be kept flipped, which waivers allow "
            f"({first(sorted(waived_here))}); all others are kept"
        )
    elif kept.right < kept.samples:
        numbers = f"{kept.right:,} of {kept.samples:,}"
        message = f"every sample that must be kept and that OLD gets right is kept ({numbers})"
    else:
        message = "every sample that must be kept is kept"
    passed = not kept.unprotected and not counted
    return GateCheck(
        name="must-keep",
        limit=0,
        value=len(counted) / kept.samples if kept.right else None,
        answer="pass" if passed else "fail",
        counted=len(counted),
        waived=len(waived_here),
        with_waivers=passed and bool(waived_here),
        passed=passed,
        message=message,
        brief=message.partition(";")[0],
    )


class _Kept(NamedTuple):
    """The samples that must be kept.

    Attributes:
        samples: how many.
        right: how many of them OLD gets right.
        unprotected: the rules of whose samples OLD gets none right, after the number of their samples.
    """

    samples: int
    right: int
    unprotected: list[str]


def _count_kept(source: SliceSource, rules: GateFile, named: Mapping[str, NamedSample]) -> _Kept:
    """Count the samples of the rules: ids in the gate file, ids in the file that it names, and the slice."""
    keep = rules.must_keep
    lines = {} if rules.listed is None else rules.listed.lines
    right = {each: named[each].old_right for each in keep.ids}
    # A right answer to a sample of one rule protects nothing of another.
    of_rules = {
        "must_keep.ids": [is_right for each, is_right in right.items() if each not in lines],
        "must_keep.file": [right[each] for each in lines],
    }
    unprotected = [
        f"{len(of_rule):,} samples of {name}"
        for name, of_rule in of_rules.items()
        if of_rule and not any(of_rule)
    ]
    if keep.by is None:
        return _Kept(len(right), sum(right.values()), unprotected)
    counts = _require_slice(source, keep.by).counts
    if not counts.old_right:
        unprotected.append(f"{counts.total:,} samples of must_keep.by ({slice_name(keep.by)})")
    outside = [
        is_right for each, is_right in right.items() if not keep.by.items() <= named[each].values.items()
    ]
    return _Kept(counts.total + len(outside), counts.old_right + sum(outside), unprotected)
