"""Counting wrong intervals of few labels, and labels that are saved: `label_coverage`, `label_savings`."""

from __future__ import annotations

import numpy as np
import pytest

from mptctl.evaluation.labels.sampling import Stratum, most_flips, plan_labels
from mptctl.evaluation.limits import Looks
from tests.simulations.label_coverage import Setting, count_wrong, critical_counts, reaches
from tests.simulations.label_savings import Update, labels_for_such, labels_for_this, random_labels_for_such


@pytest.mark.parametrize("looks", ["once", "any"])
def test_what_a_limit_reaches_is_what_the_program_computes(looks: Looks) -> None:
    generator = np.random.default_rng(3)
    rows = generator.integers(1, 60, 40)
    labelled = generator.integers(0, rows + 1)
    flips = generator.integers(0, labelled + 1)
    limits = np.array(
        [
            most_flips([Stratum(*each)], 0.02, looks)
            for each in zip(*map(np.ndarray.tolist, (rows, labelled, flips)), strict=True)
        ]
    )
    assert reaches(rows, labelled, flips, limits, 0.02, looks).all()
    assert not reaches(rows, labelled, flips, limits + 1, 0.02, looks).any()


def test_intervals_of_one_setting_are_seldom_wrong() -> None:
    for strata in (1, 3):
        assert count_wrong(Setting(2_000, 0.05, 0.5, strata), "any", 200).drawn < 0.08
    few, many = critical_counts(2_000, 0.025)
    assert many < 50 < few


def test_labels_that_decide() -> None:
    assert (
        labels_for_this(4, 2, 2) == 4
    )  # three flips of four show one or less with probability 0 only at the end
    assert labels_for_this(4, 2, 4) == 0
    update = Update("", 4650, 246, 46)
    limit = 2 * update.flips / update.samples
    plan = plan_labels(update.differ, update.samples, limit, 0.95)
    assert (labels_for_such(update, limit), random_labels_for_such(update, limit)) == (
        plan.needed,
        plan.random_needed,
    )
    assert labels_for_such(Update("", 200, 100, 40), 0.21) is None
