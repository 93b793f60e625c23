"""Shift updates after training: subtract a constant from the new classes' logits, to compare at one error."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from mptctl.errors import DataError
from mptctl.evaluation.paired_bootstrap import largest_bias
from mptctl.studies.answers_file import PartAnswers
from mptctl.studies.comparison import BIAS_ROW
from mptctl.studies.groups import Group
from mptctl.studies.updates import PART_NAMES, Update


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


def add_shifted_plain(groups: Sequence[Group]) -> ShiftedRows:
    """Add a row of the plain update shifted to the validation error of the best MPT row, after the plain one.

    That is the MPT row of the lowest mean NFR on validation. The shift of each seed is chosen on the
    validation part; the test part chooses nothing. Where no such row can be made, a note says why; lack of a
    plain update, of MPT rows or of new classes gives no note.
    """
    rows = list(groups)
    plain = next((group for group in groups if group.is_plain), None)
    rivals = [group for group in groups if group.method.startswith("mpt")]
    if not rivals or plain is None or not any(update.run.head.has_new_classes for update in plain.updates):
        return ShiftedRows(rows, [])
    most_in_common = max(len(plain.seeds & rival.seeds) for rival in rivals)
    rivals = [rival for rival in rivals if len(plain.seeds & rival.seeds) == most_in_common]
    if not all(len(update.run.val) for group in (plain, *rivals) for update in group.updates):
        note = f"no row “{BIAS_ROW}”: there is no validation part to choose a shift on"
        return ShiftedRows(rows, [note])
    best = min(rivals, key=lambda group: float(np.mean([_val_nfr(update) for update in group.updates])))
    shifted = shift_to_error_of(best, plain, least_bias=0.0)
    notes = _notes_on_missed(shifted, BIAS_ROW, best.name)
    reached = [update for update in shifted if update.is_reached]
    if not reached:
        no_seed = f"no row “{BIAS_ROW}”: {plain.name} and {best.name} have no seed in common"
        return ShiftedRows(rows, notes or [no_seed])
    rows.insert(rows.index(plain) + 1, Group(BIAS_ROW, BIAS_ROW, reached))
    return ShiftedRows(rows, notes, best.name)


def _notes_on_missed(shifted: Sequence[Update], name: str, rival: str) -> list[str]:
    """A note on the updates of a row that no shift brings to the error of another, with their flips.

    Flips of updates that err differently say little of each other, so these are left out.
    """
    missed = [update for update in shifted if not update.is_reached]
    if not missed:
        return []
    part = PART_NAMES[missed[0].part]
    flips = sum(update.counts.negative_flips for update in missed)
    error = 100 * float(np.mean([np.mean(~update.right) for update in missed]))
    which = "no shift brings it"
    if len(shifted) > 1:
        which = f"in {len(missed)} of its {len(shifted)} seeds no shift brings it"
    return [
        f"{name}: {which} to the validation error of {rival}; left out, with {flips:,} flips at its "
        f"lowest error, {error:.2f} % of {part} samples"
    ]


def shift_to_error_of(rival: Group, group: Group, least_bias: float) -> list[Update]:
    """Give each update of a row the largest bias at which its validation error is at most another row's.

    Args:
        rival: the other row; seeds that it lacks are left out.
        group: the updates to shift.
        least_bias: as ``least`` of `bias_at_error`.
    """
    rival_runs = {update.replicate: update.run for update in rival.updates}
    shifted = []
    for update in group.updates:
        if update.replicate in rival_runs:
            run = rival_runs[update.replicate]
            bias, is_reached = bias_at_error(update.run.val, run.val_error, least_bias)
            shifted.append(
                replace(update, bias=bias, rival=run, least_bias=least_bias, is_reached=is_reached)
            )
    return shifted


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


def at_equal_error(groups: Sequence[Group], target: Group) -> ShiftedRows:
    """Shift every update to the validation error of one row.

    Subtracting a constant from the new classes' logits trades errors for fewer flips after any training, so
    flips can be compared only at the same error. Each update gets the largest bias at which its validation
    error is at most that of the row; the row itself does too. Updates that no bias brings there are left out.

    Args:
        groups: the rows of the table.
        target: the row.

    Returns:
        The groups, without runs of seeds that the row lacks or whose error stays above, and notes on these.

    Raises:
        DataError: there is no validation part to choose a bias on.
    """
    for run in [update.run for group in groups for update in group.updates]:
        if not len(run.val):
            raise DataError(
                f"--equal-error: {run.folder} has no validation part to choose a shift on; leave it out"
            )
    shifted_groups: list[Group] = []
    notes: list[str] = []
    for group in groups:
        shifted = shift_to_error_of(target, group, least_bias=-np.inf)
        without_rival = len(group.updates) - len(shifted)
        if not shifted:
            notes.append(f"{group.name} is left out: it has no seed in common with {target.name}")
        elif without_rival:
            notes.append(
                f"{group.name}: {without_rival} of its {len(group.updates)} seeds left out: "
                f"{target.name} has none of them"
            )
        notes += _notes_on_missed(shifted, group.name, target.name)
        kept = [update for update in shifted if update.is_reached]
        if kept:
            shifted_groups.append(group._replace(updates=kept))
    return ShiftedRows(shifted_groups, notes)
