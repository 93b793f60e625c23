"""A gate file held against a comparison: its slices, what must be kept, and what was waived."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from typing import NamedTuple

from mptctl.errors import DataError, option, some
from mptctl.evaluation.gate.check import Scope, check_gate, failed_condition
from mptctl.evaluation.gate.gate_file import GateFile, ListedIds, Waiver
from mptctl.evaluation.limits import Limits
from mptctl.evaluation.reading.columns import first
from mptctl.evaluation.slices.source import Slice, SliceSource, slice_name
from mptctl.evaluation.verdict import Gate, GateCheck, WaiverRow
from mptctl.files.explained import shown


def today_in_utc() -> date:
    """The day by which waivers expire, the same for everybody who asks at one moment."""
    return datetime.now(UTC).date()


class GateVerdict(NamedTuple):
    """The verdict on a comparison.

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
    """The verdict on a comparison, and the flips that are waived or must not be.

    A waived flip does not count among the flips of any limit nor for `must_keep`. It stays a sample, a right
    answer of OLD and an error of NEW, because the new model is wrong there whoever agreed to it; so it counts
    in the error increase, and no denominator shrinks.

    Args:
        source: the samples by the columns that the rules name.
        rules: the gate file; an empty one where none is given.
        limits: those of flags and file, merged.
        today: in UTC; waivers that expired before it do not hold.
        identical, unfinished: as `check_gate`.

    Raises:
        DataError: an id or a slice without a sample of an old class.
    """
    keep = rules.must_keep
    ids = dict.fromkeys([*keep.ids, *(w.id for w in rules.waivers if w.id is not None)])
    _refuse_strangers(source, list(ids), rules.listed)
    for by in [*(rule.by for rule in rules.slices), *(waiver.by for waiver in rules.waivers), keep.by]:
        if by is not None:
            _slice_at(source, by)
    held = _hold_waivers(source, rules.waivers, today)
    waived, checks = held.flips, held.checks
    must_keep: frozenset[str] = frozenset()
    if keep.ids or keep.by is not None:
        must_keep = frozenset(source.flips_among(keep.ids) if keep.ids else ())
        must_keep |= source.flips_in([keep.by])[0] if keep.by is not None else frozenset()
        checks = [*checks, _kept(source, rules, must_keep, waived)]
    inside = source.flips_in([rule.by for rule in rules.slices]) if waived else [waived] * len(rules.slices)
    level = {"confidence": limits.confidence, "undecided": limits.undecided}
    gate = check_gate(
        source.answers.counts(),
        limits,
        identical=identical,
        unfinished=unfinished,
        waived=len(waived),
        scopes=[
            Scope(
                name=slice_name(rule.by),
                counts=_slice_at(source, rule.by).counts,
                limits=Limits(**rule.fractions(), **level),
                waived=len(waived & flips),
            )
            for rule, flips in zip(rules.slices, inside, strict=True)
        ],
        rules=checks,
        waivers=held.rows,
    )
    return GateVerdict(gate, waived, must_keep)


class HeldWaivers(NamedTuple):
    """Waivers held against the flips: for the report, the flips that they waive, and checks that failed."""

    rows: list[WaiverRow]
    flips: frozenset[str]
    checks: list[GateCheck]


def _hold_waivers(source: SliceSource, waivers: Sequence[Waiver], today: date) -> HeldWaivers:
    """Take off the flips of waivers that hold; a failed check for each other one that a flip still needs."""
    covered = _covered(source, waivers)
    rows = [
        WaiverRow(
            name=waiver.id if waiver.by is None and waiver.id is not None else slice_name(waiver.by or {}),
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
    # Many waivers may be of one slice, whose flips are one set.
    holding = {flips for row, flips in zip(rows, covered, strict=True) if not (row.expired or row.exceeded)}
    waived = frozenset[str]().union(*holding)
    needed = {flips: sorted(flips - waived) for flips in set(covered)}
    checks = []
    for row, flips in zip(rows, covered, strict=True):
        if row.expired and needed[flips]:
            checks.append(_expired(row, needed[flips]))
        elif row.exceeded and needed[flips]:
            checks.append(_exceeded(row))
    return HeldWaivers(rows, waived, checks)


def _slice_at(source: SliceSource, by: Mapping[str, str]) -> Slice:
    """The slice of some values; DataError where no sample of an old class is there."""
    found = source.one(by)
    if found is None:
        raise DataError(
            f"{option('gate')}: the slice {shown(slice_name(by))} has no test sample of an old class; "
            "correct it, or remove it"
        )
    return found


def _refuse_strangers(source: SliceSource, ids: Sequence[str], listed: ListedIds | None) -> None:
    """Refuse ids that cannot flip: a rule on them would hold whatever the new model does."""
    if not ids:
        return
    lines = {} if listed is None else listed.lines
    for found, what, are in (
        (source.unknown(ids), "name no sample of the test set", "not in the test set"),
        (source.of_new_classes(ids), "name samples of new classes", "of new classes, which cannot flip"),
    ):
        if listed is not None and (numbers := sorted(lines[each] for each in found if each in lines)):
            raise DataError(
                f"{option('gate')}: {listed.path}: lines {some(numbers)} {what}; correct them, or remove them"
            )
        if found:
            raise DataError(
                f"{option('gate')}: {len(found)} ids are {are} ({first(found)}); correct them, or remove them"
            )


def _covered(source: SliceSource, waivers: Sequence[Waiver]) -> list[frozenset[str]]:
    """The flips of each waiver, expired or not, by one query for all ids and one for each crossing."""
    single = [waiver.id for waiver in waivers if waiver.id is not None]
    flipped = frozenset(source.flips_among(single)) if single else frozenset[str]()
    inside = iter(source.flips_in([waiver.by for waiver in waivers if waiver.by is not None]))
    return [frozenset({waiver.id} & flipped) if waiver.id is not None else next(inside) for waiver in waivers]


def _expired(row: WaiverRow, flips: Sequence[str]) -> GateCheck:
    still_need = "1 flip still needs" if len(flips) == 1 else f"{len(flips):,} flips still need"
    return failed_condition(
        "expired-waiver",
        f"the waiver of {shown(row.name)} ({shown(row.owner)}: {shown(row.reason)}) expired on "
        f"{row.expires}, and {still_need} it "
        f"({first(flips)}); renew it, or mend the model",
    )


def _exceeded(row: WaiverRow) -> GateCheck:
    return failed_condition(
        "exceeded-waiver",
        f"the waiver of {shown(row.name)} ({shown(row.owner)}: {shown(row.reason)}) is for at most "
        f"{row.max_flips:,} flips, and there are {row.flips:,}; none of them is waived; agree to more, or "
        "mend the model",
    )


def _kept(source: SliceSource, rules: GateFile, flips: frozenset[str], waived: frozenset[str]) -> GateCheck:
    """The check that nothing flips of what must be kept; it fails, too, where OLD gets none of that right."""
    keep = rules.must_keep
    left = sorted(flips - waived)
    samples, right = source.count(keep.ids, keep.by)
    if left:
        message = f"{len(left):,} of the samples that must be kept flipped ({first(left)})"
    elif not right:
        message = (
            f"OLD is wrong on all {samples:,} samples that must be kept, so that none can flip; correct the "
            "list"
        )
    elif right < samples:
        message = f"every sample that must be kept and that OLD gets right is kept ({right:,} of {samples:,})"
    else:
        message = "every sample that must be kept is kept"
    passed = right > 0 and not left
    return GateCheck(
        name="must-keep",
        limit=0,
        value=len(left) / samples if right else None,
        tested=None,
        answer="pass" if passed else "fail",
        counted=len(left),
        waived=len(flips & waived),
        passed=passed,
        message=message,
    )
