"""Counting how often a budget holds: `tests.simulations.budget_coverage`."""

from __future__ import annotations

import math

from mptctl.evaluation.bias.choice import Budget
from tests.evaluation.made_up import made_up
from tests.simulations.budget_coverage import measure_coverage


def test_a_budget_that_any_bias_keeps_is_kept_each_time() -> None:
    found = measure_coverage(made_up(4000, 0), Budget(max_nfr=1.0), per_class=20, draws=6)
    assert (found.kept, found.met, found.draws) == (6, 6, 6)
    assert 0 < found.nfr < 1


def test_a_budget_that_no_validation_part_can_show_is_met_by_none() -> None:
    # Without a flip among 80 samples the bound is 1 - 0.025 ** (1 / 80), which is 4.5 %.
    found = measure_coverage(made_up(4000, 0), Budget(max_nfr=0.04), per_class=20, draws=3)
    assert (found.kept, found.met) == (0, 0)
    assert math.isnan(found.nfr)


def test_choices_that_look_good_on_few_samples_are_held_against_the_pool() -> None:
    """At a confidence of a half, a good part of what is promised does not hold."""
    found = measure_coverage(made_up(4000, 0), Budget(max_nfr=0.12, confidence=0.1), per_class=20, draws=40)
    assert 0 < found.kept < found.met
