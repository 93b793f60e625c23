"""A bias taken off the new classes' logits after training: of the plain update, and of all updates at one error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mptctl.errors import DataError
from mptctl.evaluation.paired_bootstrap import largest_bias
from mptctl.studies.answers import PartAnswers, RunAnswers
from mptctl.studies.comparison import BIAS_ROW
from mptctl.studies.groups import Group
from mptctl.studies.row_differences import row_of_name
from mptctl.studies.updates import Update


def take_bias_off(groups: Sequence[Group]) -> tuple[Group | None, str | None, list[str]]:
    """The plain update with a constant taken off its new classes' logits, chosen on validation.

    It is chosen for each seed at the validation error of the best MPT row, which is the one with the lowest mean NFR
    on validation: the test part chooses nothing.

    Args:
        groups: of one split.

    Returns:
        The group, the name of the row that it is held against, and notes; None where one of them cannot be had.
    """
    plain = next((group for group in groups if group.is_plain), None)
    rivals = [group for group in groups if group.method.startswith("mpt")]
    if (
        plain is None
        or not rivals
        or all(u.run.head.num_old == len(u.run.head.class_names) for u in plain.updates)
    ):
        return None, None, []
    # A row of fewer seeds is no measure for the others.
    shared = [
        len({u.replicate for u in group.updates} & {u.replicate for u in plain.updates}) for group in rivals
    ]
    rivals = [group for group, seeds in zip(rivals, shared, strict=True) if seeds == max(shared)]
    if not all(len(update.run.val) for group in (plain, *rivals) for update in group.updates):
        return None, None, [f"no row “{BIAS_ROW}”: there is no validation part to choose a shift on"]
    best = min(rivals, key=lambda group: float(np.mean([_val_nfr(update) for update in group.updates])))
    rival_runs = {update.replicate: update.run for update in best.updates}
    biased, missed = [], 0
    for update in plain.updates:
        if update.replicate in rival_runs:
            shifted, reached = at_error_of(update, rival_runs[update.replicate])
            biased.append(shifted)
            missed += not reached
    if not biased:
        return None, None, [f"no row “{BIAS_ROW}”: {plain.name} and {best.name} have no seed in common"]
    notes = [
        f"in {missed} of {len(biased)} seeds no shift brings the plain update to the validation error of {best.name}; "
        "there the one with the lowest error is taken"
    ]
    return Group(BIAS_ROW, BIAS_ROW, plain.section, biased), best.name, notes if missed else []


def at_error_of(update: Update, rival: RunAnswers, least: float = 0.0) -> tuple[Update, bool]:
    """An update with the largest bias at which it errs on validation no more than another run as it is.

    Args:
        update: as it is.
        rival: of the same split.
        least: see `bias_at_error`.

    Returns:
        The update, and whether that error is reached.
    """
    bias, reached = bias_at_error(update.run.val, float(np.mean(~rival.val.right())), least)
    return replace(update, bias=bias, rival=rival, least_bias=least), reached


def bias_at_error(part: PartAnswers, error: float, least: float = 0.0) -> tuple[float, bool]:
    """The largest bias at which a model errs no more than it may: flips only become fewer with the bias.

    Args:
        part: its answers; at least one.
        error: what it may err on all classes, a fraction.
        least: the smallest bias; minus infinity where one may also be put on the new classes.

    Returns:
        The bias, one of the gaps or the least, and whether that error is reached; where it is not, the bias with the
        lowest error, of several the smallest.
    """
    biases, reached = largest_bias(part.wrong_by_bias, np.ones((1, len(part))), np.array([error]), least)
    return float(biases[0]), bool(reached[0])


def _val_nfr(update: Update) -> float:
    counts = replace(update, part="val").counts
    return counts.negative_flips / max(counts.total, 1)


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
