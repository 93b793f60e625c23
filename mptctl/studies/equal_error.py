"""Updates at one error: flips that are left once a bias has brought each of them to what one row errs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mptctl.errors import DataError
from mptctl.studies.against import row_of_name
from mptctl.studies.groups import Group
from mptctl.studies.post_hoc_bias import at_error_of, bias_at_error
from mptctl.studies.updates import Update


def at_equal_error(groups: Sequence[Group], name: str) -> tuple[list[Group], list[str]]:
    """The same updates, each with the largest bias at which it errs no more on validation than one row does.

    A bias off the new classes' logits trades errors for flips after any training, so the flips of updates of unlike
    errors say little of each other. The row itself has its largest bias too.

    Args:
        groups: of one section of the table.
        name: of the row.

    Returns:
        The groups, without runs of seeds that the row has not, and notes; no group where the section has no such row.

    Raises:
        UsageError: several rows have that name.
        DataError: there is no validation part to choose a bias on.
    """
    target = row_of_name("--equal-error", groups, name)
    if target is None:
        return [], [f"{groups[0].section}: left out: it has no row {name}"]
    for group in groups:
        for update in group.updates:
            if not len(update.run.val):
                raise DataError(
                    f"--equal-error: {update.run.folder} has no validation part to choose a shift on; leave it out"
                )
    rivals = {u.replicate: u.run for u in target.updates}
    moved, notes = [], []
    for group in groups:
        updates, missed = [], 0
        for update in group.updates:
            if update.replicate in rivals:
                shifted, reached = at_error_of(update, rivals[update.replicate], least=-np.inf)
                updates.append(shifted)
                missed += not reached
        if not updates:
            notes.append(f"{group.name} is left out: it has no seed in common with {name}")
            continue
        if len(updates) < len(group.updates):
            notes.append(
                f"{group.name}: {len(group.updates) - len(updates)} of its {len(group.updates)} seeds left out: "
                f"{name} has none of them"
            )
        if missed:
            notes.append(
                f"{group.name}: in {missed} of {len(updates)} seeds no shift brings it to the validation error of "
                f"{name}; there the one with the lowest error is taken"
            )
        moved.append(group._replace(updates=updates))
    return moved, notes


def at_test_error_of(update: Update) -> Update:
    """An update with the bias read off the test samples themselves, at the test error of the row it is held against.

    A check on the choice by validation, after which rows differ in test error by what that choice varies.
    """
    assert update.rival is not None
    error = float(np.mean(~update.rival.test.right()))
    return replace(update, bias=bias_at_error(update.run.test, error, -np.inf)[0])
