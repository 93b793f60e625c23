"""What costs no training: a constant taken off the new classes' logits of the plain update, after training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from mptctl.studies.answers import PartAnswers
from mptctl.studies.comparison import BIAS_ROW
from mptctl.studies.groups import Group
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
        return None, None, [f"no row “{BIAS_ROW}”: there is no validation part to choose a bias on"]
    best = min(rivals, key=lambda group: float(np.mean([_val_nfr(update) for update in group.updates])))
    errors = {update.replicate: float(np.mean(~update.run.val.right())) for update in best.updates}
    biased, missed = [], 0
    for update in plain.updates:
        if update.replicate in errors:
            bias, reached = bias_at_error(update.run.val, errors[update.replicate])
            biased.append(replace(update, bias=bias))
            missed += not reached
    if not biased:
        return None, None, [f"no row “{BIAS_ROW}”: {plain.name} and {best.name} have no seed in common"]
    notes = [
        f"in {missed} of {len(biased)} seeds no bias brings the plain update to the validation error of {best.name}; "
        "there the one with the lowest error is taken"
    ]
    return Group(BIAS_ROW, BIAS_ROW, plain.section, biased), best.name, notes if missed else []


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
    gap = part.gap.astype(np.float64)
    if least == -np.inf:  # below every gap: each sample that can be answered with a new class is
        least = float(np.nextafter(gap[np.isfinite(gap)].min(initial=0.0), -np.inf))
    moving = np.flatnonzero(gap > least)
    order = moving[np.argsort(gap[moving], kind="stable")]
    # Each of these samples goes over to its best old class once the bias is its gap; equal gaps go together.
    change = (part.old_answer != part.label)[order].astype(np.int64) - (part.new_answer != part.label)[order]
    last = np.append(gap[order][1:] != gap[order][:-1], True)[: order.size]
    biases = np.append(least, gap[order][last])
    start = int((~part.right(least)).sum())
    errors = np.append(start, start + np.cumsum(change)[last]) / len(part)
    reached = np.flatnonzero(errors <= error)
    at = int(reached[-1]) if reached.size else int(errors.argmin())
    return float(biases[at]), bool(reached.size)


def _val_nfr(update: Update) -> float:
    counts = replace(update, part="val").counts
    return counts.negative_flips / max(counts.total, 1)
