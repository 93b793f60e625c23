"""Draws of an epoch where classes differ in size: how often each picture comes, and what a copy of it sees."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mptctl.data.augmentation.sampling import Draws
from mptctl.data.plan import EpochPlan, random_keys
from mptctl.errors import UsageError
from mptctl.recipe import DataRecipe, load_recipe

# Rows of the manifest need not begin at 0, nor lie by class.
COUNTS = np.array([90, 30, 7, 1])
ROWS = np.arange(5, 5 + COUNTS.sum(), dtype=np.int64)
LABELS = np.random.default_rng(0).permutation(np.repeat(np.arange(4), COUNTS))
SIDE = np.full(len(ROWS), 32, dtype=np.int32)


def drawn(sampling: str, epoch: int = 0, seed: int = 3) -> Draws:
    return EpochPlan(seed, DataRecipe.model_validate({"sampling": sampling})).draws(epoch, ROWS, LABELS)


def test_without_sampling_every_row_comes_once_in_todays_order() -> None:
    plain = drawn("none", 2)
    assert plain.copies is None
    assert plain.rows.tolist() == EpochPlan(3, DataRecipe()).order(2, ROWS).tolist()


@pytest.mark.parametrize(("sampling", "power"), [("balanced", 0.0), ("sqrt", 0.5)])
def test_each_picture_comes_as_often_as_its_repetition_factor_says(sampling: str, power: float) -> None:
    factors = len(ROWS) * COUNTS**power / (COUNTS**power).sum() / COUNTS
    epochs, times = 400, np.zeros(len(ROWS))
    for epoch in range(epochs):
        draws = drawn(sampling, epoch)
        assert len(draws.rows) == len(ROWS)
        in_epoch = np.bincount(draws.rows - 5, minlength=len(ROWS))
        for label, factor in enumerate(factors):
            of_class = in_epoch[label == LABELS]
            assert of_class.max() - of_class.min() <= 1
            assert abs(of_class.sum() - factor * COUNTS[label]) < 1
        times += in_epoch
    for label, factor in enumerate(factors):
        # Of one picture the mean of 400 draws that differ by one at most lies within 0.1, at four deviations.
        assert times[label == LABELS] / epochs == pytest.approx(factor, abs=0.11)
        assert times[label == LABELS].mean() / epochs == pytest.approx(factor, abs=0.02)


def test_copies_are_numbered_from_0_and_the_order_mixes_them() -> None:
    draws = drawn("balanced", 4)
    for row in np.unique(draws.rows):
        assert sorted(draws.copies[draws.rows == row].tolist()) == list(range((draws.rows == row).sum()))
    one = ROWS[np.flatnonzero(LABELS == 3)[0]]
    places = np.flatnonzero(draws.rows == one)
    assert len(places) == 32
    assert np.diff(places).max() > 3  # not side by side
    assert drawn("balanced", 4).rows.tolist() == draws.rows.tolist()
    assert drawn("balanced", 5).rows.tolist() != draws.rows.tolist()
    assert drawn("balanced", 4, seed=4).rows.tolist() != draws.rows.tolist()


def test_the_first_copy_sees_todays_view_and_others_see_their_own() -> None:
    plan = EpochPlan(3, DataRecipe())
    today = plan.views(1, ROWS, SIDE, SIDE)
    for crop in ("pad-crop", "random-resized-crop"):
        plan = EpochPlan(3, DataRecipe.model_validate({"augment": crop}))
        today = plan.views(1, ROWS, SIDE, SIDE)
        first = plan.views(1, ROWS, SIDE, SIDE, np.zeros_like(ROWS))
        second = plan.views(1, ROWS, SIDE, SIDE, np.ones_like(ROWS))
        for name in ("top", "left", "height", "width", "flip"):
            np.testing.assert_array_equal(getattr(first, name), getattr(today, name))
        assert (second.top != today.top).mean() > 0.5
        assert 0.3 < (second.flip != today.flip).mean() < 0.7


def test_the_first_copy_has_todays_transforms_and_others_have_their_own() -> None:
    steps = [{"name": "trivial-augment"}, {"name": "random-erasing"}]
    plan = EpochPlan(3, DataRecipe.model_validate({"transforms": steps}))
    today, first, second = (plan.transforms(1, ROWS, copies) for copies in (None, 0 * ROWS, 0 * ROWS + 1))
    for mine, same, other in zip(today.operations, first.operations, second.operations, strict=True):
        np.testing.assert_array_equal(mine.kinds, same.kinds)
        np.testing.assert_array_equal(mine.amounts, same.amounts)
        assert (mine.kinds != other.kinds).mean() > 0.5


@given(seed=st.integers(0, 2**31 - 1), epoch=st.integers(0, 500), field=st.integers(0, 200))
def test_copy_0_has_the_bits_of_a_row_without_copies(seed: int, epoch: int, field: int) -> None:
    rows = np.arange(50, dtype=np.int64)
    assert (random_keys(seed, epoch, rows, field) == random_keys(seed, epoch, rows, field, 0 * rows)).all()
    several = np.concatenate([random_keys(seed, epoch, rows, field, 0 * rows + i) for i in range(4)])
    assert len(np.unique(several)) == 200


def test_weights_and_sampling_of_one_imbalance_are_refused() -> None:
    with pytest.raises(UsageError, match=r"with data\.sampling balanced rare classes would count twice"):
        load_recipe("digits", ["data.sampling=balanced", "criterion.class_weights=inverse"])
