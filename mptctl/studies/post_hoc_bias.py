"""A bias off the new classes' logits after training: of the plain update, and of all at one error."""

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
from mptctl.studies.updates import Update

Shift = Literal["all", "plain"]


class ShiftedRows(NamedTuple):
    """The rows of one section of a table, some of them with a bias that was chosen on the validation part.

    Attributes:
        groups: the rows.
        notes: what a reader of their numbers should know.
        rival: the row at whose validation error the plain update was shifted; None where it was not.
    """

    groups: list[Group]
    notes: list[str]
    rival: str | None = None


def shift_updates(groups: Sequence[Group], name: str | None, shift: Shift) -> ShiftedRows:
    """Shifts updates to the validation error of one row.

    Args:
        groups: of one section of the table.
        name: of the row; None: the plain update is shifted to the best MPT row.
        shift: all updates in place, or the plain one alone, in a row of its own.

    Raises:
        UsageError, DataError: see `at_equal_error`.
    """
    if name is None or shift == "plain":
        return add_shifted_plain(groups, name)
    return at_equal_error(groups, name)


def add_shifted_plain(groups: Sequence[Group], name: str | None) -> ShiftedRows:
    """Adds the plain update with a constant taken off its new classes' logits, after the row of that update.

    The constant is chosen for each seed at the validation error of one row: the test part chooses nothing.

    Args:
        groups: of one section of the table.
        name: of the row; None: the MPT row of the lowest mean NFR on validation.
    """
    rows = list(groups)
    plain = next((group for group in groups if group.is_plain), None)
    if name is None:
        rivals = [group for group in groups if group.method.startswith("mpt")]
    else:
        named = row_of_name("--equal-error", groups, name)
        rivals = [named] if named is not None else []
    if (
        plain is None
        or not rivals
        or all(u.run.head.num_old == len(u.run.head.class_names) for u in plain.updates)
    ):
        missing = f"no row “{BIAS_ROW}”: it needs new classes, a plain update and the row {name}"
        return ShiftedRows(rows, [missing] if name is not None else [])
    # A row of fewer seeds is no measure for the others.
    plain_seeds = {update.replicate for update in plain.updates}
    shared = [len(plain_seeds.intersection(u.replicate for u in group.updates)) for group in rivals]
    rivals = [group for group, seeds in zip(rivals, shared, strict=True) if seeds == max(shared)]
    if not all(len(update.run.val) for group in (plain, *rivals) for update in group.updates):
        note = f"no row “{BIAS_ROW}”: there is no validation part to choose a shift on"
        return ShiftedRows(rows, [note])
    best = min(rivals, key=lambda group: float(np.mean([_val_nfr(update) for update in group.updates])))
    biased, missed = _shift(plain, best, 0.0)
    if not biased:
        return ShiftedRows(
            rows, [f"no row “{BIAS_ROW}”: {plain.name} and {best.name} have no seed in common"]
        )
    at = next(i for i, group in enumerate(rows) if group is plain)
    rows.insert(at + 1, Group(BIAS_ROW, BIAS_ROW, plain.section, biased))
    notes = [
        f"in {missed} of {len(biased)} seeds no shift brings the plain update to the validation error of "
        f"{best.name}; there the one with the lowest error is taken"
    ]
    return ShiftedRows(rows, notes if missed else [], best.name)


def _shift(group: Group, rival: Group, least: float) -> tuple[list[Update], int]:
    """Gives each update the largest bias at which it errs no more on validation than another row's run.

    Args:
        group: of the updates as they are.
        rival: the other row; seeds that it has not are left out.
        least: see `bias_at_error`.

    Returns:
        The updates, and the number of those that err more whatever their bias.
    """
    runs = {update.replicate: update.run for update in rival.updates}
    shifted, missed = [], 0
    for update in group.updates:
        if update.replicate in runs:
            run = runs[update.replicate]
            bias, reached = bias_at_error(update.run.val, float(np.mean(~run.val.right())), least)
            shifted.append(replace(update, bias=bias, rival=run, least_bias=least))
            missed += not reached
    return shifted, missed


def bias_at_error(part: PartAnswers, error: float, least: float = 0.0) -> tuple[float, bool]:
    """The largest bias at which a model errs no more than it may: flips only become fewer with the bias.

    Args:
        part: its answers; at least one.
        error: what it may err on all classes, a fraction.
        least: the smallest bias; minus infinity where one may also be put on the new classes.

    Returns:
        The bias, one of the gaps or the least, and whether that error is reached; where it is not, the bias
        with the lowest error, of several the smallest.
    """
    biases, reached = largest_bias(part.wrong_by_bias, np.ones((1, len(part))), np.array([error]), least)
    return float(biases[0]), bool(reached[0])


def _val_nfr(update: Update) -> float:
    counts = replace(update, part="val").counts
    return counts.negative_flips / max(counts.total, 1)


def at_equal_error(groups: Sequence[Group], name: str) -> ShiftedRows:
    """The same updates, each with the largest bias at which it errs no more on validation than one row does.

    A bias off the new classes' logits trades errors for flips after any training, so the flips of updates of
    unlike errors say little of each other. The row itself has its largest bias too.

    Args:
        groups: of one section of the table.
        name: of the row.

    Returns:
        The groups, without runs of seeds that the row has not, and notes; no group where the section has no
        such row.

    Raises:
        UsageError: several rows have that name.
        DataError: there is no validation part to choose a bias on.
    """
    target = row_of_name("--equal-error", groups, name)
    if target is None:
        return ShiftedRows([], [f"{groups[0].section}: left out: it has no row {name}"])
    for group in groups:
        for update in group.updates:
            if not len(update.run.val):
                raise DataError(
                    f"--equal-error: {update.run.folder} has no validation part to choose a shift on; leave "
                    "it out"
                )
    moved, notes = [], []
    for group in groups:
        updates, missed = _shift(group, target, -np.inf)
        if not updates:
            notes.append(f"{group.name} is left out: it has no seed in common with {name}")
            continue
        if len(updates) < len(group.updates):
            notes.append(
                f"{group.name}: {len(group.updates) - len(updates)} of its {len(group.updates)} seeds left "
                f"out: {name} has none of them"
            )
        if missed:
            notes.append(
                f"{group.name}: in {missed} of {len(updates)} seeds no shift brings it to the validation "
                f"error of {name}; there the one with the lowest error is taken"
            )
        moved.append(group._replace(updates=updates))
    return ShiftedRows(moved, notes)


def at_test_error_of(update: Update) -> Update:
    """An update with the bias read off the test samples, at the test error of the row it is held against.
    A check on the choice by validation, after which rows differ in test error by what that choice varies.
    """
    assert update.rival is not None
    error = float(np.mean(~update.rival.test.right()))
    return replace(update, bias=bias_at_error(update.run.test, error, -np.inf)[0])
