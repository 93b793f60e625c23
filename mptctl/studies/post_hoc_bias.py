"""Shift updates after training: subtract a constant from the new classes' logits, to compare at one error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, NamedTuple

import numpy as np

from mptctl.errors import DataError
from mptctl.evaluation.paired_bootstrap import largest_bias
from mptctl.studies.answers_file import PartAnswers
from mptctl.studies.comparison import BIAS_ROW
from mptctl.studies.groups import Group, row_of_name
from mptctl.studies.updates import PART_NAMES, Update

Shift = Literal["all", "plain"]


class ShiftedRows(NamedTuple):
    """The rows of a table, some of them shifted by a bias chosen on the validation part.

    Attributes:
        groups: the rows.
        notes: for the reader of their numbers.
        rival: the row to whose validation error the plain update was shifted, in a row of its own; None where
            there is no such row.
    """

    groups: list[Group]
    notes: list[str]
    rival: str | None = None


def shift_updates(groups: Sequence[Group], name: str | None, shift: Shift) -> ShiftedRows:
    """Shift updates to the validation error of one row.

    Args:
        groups: the rows of the table.
        name: of the row; None: only the plain update is shifted, to the best MPT row.
        shift: ``all``: every update is replaced by its shifted one; ``plain``: a row with the shifted plain
            update is added.

    Raises:
        DataError: see `at_equal_error`.
    """
    if name is None or shift == "plain":
        return add_shifted_plain(groups, name)
    return at_equal_error(groups, name)


def add_shifted_plain(groups: Sequence[Group], name: str | None) -> ShiftedRows:
    """Add a row of the plain update shifted to the validation error of another row, after the plain one.

    The shift of each seed is chosen on the validation part; the test part chooses nothing. Where no such row
    can be made, a note says why. Without ``name``, lack of a plain update, of MPT rows or of new classes
    gives no note.

    Args:
        groups: the rows of the table.
        name: of the other row; None: the MPT row of the lowest mean NFR on validation.
    """
    rows = list(groups)
    plain_rows = [group for group in groups if group.is_plain]
    if name is None:
        rivals = [group for group in groups if group.method.startswith("mpt")]
    else:
        named = row_of_name(groups, name)
        rivals = [named] if named is not None else []
    if not rivals or not plain_rows or not _has_new_classes(plain_rows[0]):
        missing = f"no row “{BIAS_ROW}”: it needs new classes, a plain update and the row {name}"
        return ShiftedRows(rows, [missing] if name is not None else [])
    plain = plain_rows[0]
    rivals = _with_most_common_seeds(rivals, plain)
    if not all(len(update.run.val) for group in (plain, *rivals) for update in group.updates):
        note = f"no row “{BIAS_ROW}”: there is no validation part to choose a shift on"
        return ShiftedRows(rows, [note])
    best = min(rivals, key=lambda group: float(np.mean([_val_nfr(update) for update in group.updates])))
    shifted = _shift_to_error_of(best, plain, least_bias=0.0)
    notes = _notes_on_missed(shifted, BIAS_ROW, best.name)
    if not shifted.updates:
        no_seed = f"no row “{BIAS_ROW}”: {plain.name} and {best.name} have no seed in common"
        return ShiftedRows(rows, notes or [no_seed])
    place = next(i for i, group in enumerate(rows) if group is plain)
    rows.insert(place + 1, Group(BIAS_ROW, BIAS_ROW, shifted.updates))
    return ShiftedRows(rows, notes, best.name)


def _has_new_classes(group: Group) -> bool:
    """Tells whether one of the splits of a row has new classes."""
    return any(update.run.head.num_old < len(update.run.head.class_names) for update in group.updates)


def _with_most_common_seeds(groups: Sequence[Group], plain: Group) -> list[Group]:
    """Those rows that have the most seeds in common with the plain one."""
    plain_seeds = {update.replicate for update in plain.updates}
    common = [len(plain_seeds.intersection(u.replicate for u in group.updates)) for group in groups]
    return [group for group, seeds in zip(groups, common, strict=True) if seeds == max(common)]


class _ShiftedUpdates(NamedTuple):
    """Shifted updates of one row, of the seeds that both rows have.

    Attributes:
        updates: at most at the error of the other row.
        missed: at a higher error than the other row whatever the bias, so at the lowest that they have.
    """

    updates: list[Update]
    missed: list[Update]


def _notes_on_missed(shifted: _ShiftedUpdates, name: str, rival: str, what: str = "left out") -> list[str]:
    """A note on the updates of a row that no shift brings to the error of another, with their flips.

    Flips of updates that err differently say little of each other: these are left out, or ``what`` says so.
    """
    missed, seeds = shifted.missed, len(shifted.missed) + len(shifted.updates)
    if not missed:
        return []
    part = PART_NAMES[missed[0].part]
    flips = sum(update.counts.negative_flips for update in missed)
    error = 100 * float(np.mean([np.mean(~update.right) for update in missed]))
    which = "no shift brings it"
    if seeds > 1:
        which = f"in {len(missed)} of its {seeds} seeds no shift brings it"
    return [
        f"{name}: {which} to the validation error of {rival}; {what}, with {flips:,} flips at its "
        f"lowest error, {error:.2f} % of {part} samples"
    ]


def _shift_to_error_of(rival: Group, group: Group, least_bias: float) -> _ShiftedUpdates:
    """Give each update of a row the largest bias at which its validation error is at most another row's.

    Args:
        rival: the other row; seeds that it lacks are left out.
        group: the updates to shift.
        least_bias: as ``least`` of `bias_at_error`.
    """
    rival_runs = {update.replicate: update.run for update in rival.updates}
    shifted, missed = list[Update](), list[Update]()
    for update in group.updates:
        if update.replicate in rival_runs:
            run = rival_runs[update.replicate]
            error = float(np.mean(~run.val.right()))
            bias, is_reached = bias_at_error(update.run.val, error, least_bias)
            of_seed = replace(update, bias=bias, rival=run, least_bias=least_bias)
            (shifted if is_reached else missed).append(of_seed)
    return _ShiftedUpdates(shifted, missed)


def bias_at_error(part: PartAnswers, error: float, least: float = 0.0) -> tuple[float, bool]:
    """Choose the largest bias at which a model's error is at most a limit; a larger bias has fewer flips.

    Args:
        part: the model's predictions on at least one sample.
        error: the limit on the error over all classes, a fraction.
        least: the smallest bias allowed; minus infinity allows to add to the new classes' logits.

    Returns:
        The bias, which is one of the gaps or ``least``, and whether the limit is kept. Where no bias keeps
        the limit, the bias of the lowest error; of several such the smallest.
    """
    biases, reached = largest_bias(part.wrong_by_bias, np.ones((1, len(part))), np.array([error]), least)
    return float(biases[0]), bool(reached[0])


def _val_nfr(update: Update) -> float:
    """The negative flip rate on the validation part, a fraction; 0 where no sample is of an old class."""
    counts = replace(update, part="val").counts
    return counts.negative_flips / max(counts.total, 1)


def at_equal_error(groups: Sequence[Group], name: str, *, keep_missed: bool = False) -> ShiftedRows:
    """Shift every update to the validation error of one row.

    Subtracting a constant from the new classes' logits trades errors for fewer flips after any training, so
    flips can be compared only at the same error. Each update gets the largest bias at which its validation
    error is at most that of the row; the row itself does too. Updates that no bias brings there are left out.

    Args:
        groups: the rows of the table.
        name: of the row.
        keep_missed: updates that no bias brings there stay, with the bias of their lowest error.

    Returns:
        The groups, without runs of seeds that the row lacks or whose error stays above, and notes on these.

    Raises:
        DataError: there is no validation part to choose a bias on.
    """
    target = row_of_name(groups, name)
    assert target is not None, "the name was checked"
    for group in groups:
        for update in group.updates:
            if not len(update.run.val):
                raise DataError(
                    f"--equal-error: {update.run.folder} has no validation part to choose a shift on; leave "
                    "it out"
                )
    shifted_groups, notes = [], []
    for group in groups:
        shifted = _shift_to_error_of(target, group, least_bias=-np.inf)
        common = len(shifted.updates) + len(shifted.missed)
        if not common:
            notes.append(f"{group.name} is left out: it has no seed in common with {name}")
        elif common < len(group.updates):
            notes.append(
                f"{group.name}: {len(group.updates) - common} of its {len(group.updates)} seeds left out: "
                f"{name} has none of them"
            )
        notes += _notes_on_missed(shifted, group.name, name, "counted" if keep_missed else "left out")
        kept = [*shifted.updates, *shifted.missed] if keep_missed else shifted.updates
        if kept:
            place = {update.replicate: i for i, update in enumerate(group.updates)}
            in_order = sorted(kept, key=lambda update: place[update.replicate])
            shifted_groups.append(group._replace(updates=in_order))
    return ShiftedRows(shifted_groups, notes)


class TestShift(NamedTuple):
    """An update with a bias chosen on the test samples, and whether it errs no more than its rival."""

    update: Update
    is_reached: bool


def shift_to_test_error(update: Update) -> TestShift:
    """Choose another bias for a shifted update, on the test samples at the test error of its rival.

    A check on the choice by validation, after which rows may differ in test error. Where no bias brings the
    update to that error, the bias of its lowest error is chosen.
    """
    assert update.rival is not None
    error = float(np.mean(~update.rival.test.right()))
    bias, is_reached = bias_at_error(update.run.test, error, -np.inf)
    return TestShift(replace(update, bias=bias), is_reached)
