"""The bias at which a plain update errs as much as another one."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from mptctl.studies.post_hoc_bias import bias_at_error
from tests.studies.made_runs import CLASSES, random_part


@given(
    seed=st.integers(0, 1000),
    error=st.floats(0, 1),
    strength=st.floats(0, 4),
    least=st.sampled_from([0.0, -np.inf]),
)
def test_it_is_the_largest_bias_that_errs_no_more(
    seed: int, error: float, strength: float, least: float
) -> None:
    """A bias is taken off, or may also be put on the new classes."""
    rng = np.random.default_rng(seed)
    part = random_part(rng, rng.integers(CLASSES, size=60), strength)
    bias, reached = bias_at_error(part, error, least=least)
    gaps = sorted(set(part.gap.astype(np.float64).tolist()))
    # Below the smallest gap, every answer is a new class.
    every = [gaps[0] - 1, *gaps] if least else [0.0, *(gap for gap in gaps if gap > 0)]
    errors = {each: (~part.right(each)).mean() for each in every}
    within = [each for each in every if errors[each] <= error]
    best = max(within) if within else min(every, key=lambda each: errors[each])
    assert reached == bool(within)
    assert (part.answers(bias) == part.answers(best)).all()
    assert least or bias == best


def test_a_model_that_never_answers_a_new_class_has_none_to_take_off() -> None:
    rng = np.random.default_rng(0)
    part = random_part(rng, rng.integers(3, size=50), 0.0, known=3)
    wrong = float((~part.right()).mean())
    assert bias_at_error(part, wrong) == (0.0, True)
    assert bias_at_error(part, wrong - 0.01) == (0.0, False)
    assert bias_at_error(part, wrong, least=-np.inf)[1]
