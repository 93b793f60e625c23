"""The plan is a pure function of (seed, epoch, index), and draws what it says it draws."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import chisquare, spearmanr

from mptctl.data.plan import EpochPlan, random_keys, worker_share
from mptctl.recipe import DataRecipe

MANY = np.arange(20_000, dtype=np.int64)
SQUARE = np.full(len(MANY), 32, dtype=np.int32)


def splitmix64(state: int) -> int:
    """The published generator's output for a state that was already advanced."""
    word = (1 << 64) - 1
    state = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & word
    state = ((state ^ (state >> 27)) * 0x94D049BB133111EB) & word
    return state ^ (state >> 31)


def test_the_mixer_is_splitmix64() -> None:
    # First output of SplitMix64 with seed 0, as its reference implementation gives it.
    assert splitmix64(0x9E3779B97F4A7C15) == 0xE220A8397B1DCDAF
    # Scalars and arrays are mixed by the same function: index 0 sees the state of the three scalars.
    word = (1 << 64) - 1
    state = 0
    for scalar in (7, 3, 2):
        state = splitmix64((state + 0x9E3779B97F4A7C15 + scalar) & word)
    assert int(random_keys(7, 3, np.array([0]), 2)[0]) == splitmix64(splitmix64(state))


@given(
    seed=st.integers(0, 2**31 - 1),
    epoch=st.integers(0, 500),
    rows=st.sets(st.integers(0, 10**6), max_size=60),
)
def test_a_subset_keeps_the_order_and_the_views_of_the_whole(seed: int, epoch: int, rows: set[int]) -> None:
    plan = EpochPlan(seed, DataRecipe())
    whole = np.array(sorted(rows), dtype=np.int64)
    part = whole[::2]
    order = plan.order(epoch, whole)
    assert sorted(order.tolist()) == whole.tolist()
    assert plan.order(epoch, part).tolist() == [i for i in order.tolist() if i in set(part.tolist())]
    size = np.full(len(whole), 32, dtype=np.int32)
    of_whole = plan.views(epoch, whole, size, size)
    of_part = plan.views(epoch, part, size[::2], size[::2])
    np.testing.assert_array_equal(of_part.top, of_whole.top[::2])
    np.testing.assert_array_equal(of_part.left, of_whole.left[::2])
    np.testing.assert_array_equal(of_part.flip, of_whole.flip[::2])


@pytest.mark.parametrize(
    ("one", "other"),
    [((0, 0), (0, 1)), ((0, 0), (1, 0)), ((0, 1), (1, 0)), ((5, 7), (6, 7)), ((5, 99), (5, 98))],
)
def test_orders_of_epochs_and_seeds_are_uncorrelated(one: tuple[int, int], other: tuple[int, int]) -> None:
    places = []
    for seed, epoch in (one, other):
        place = np.empty(len(MANY), dtype=np.int64)
        place[EpochPlan(seed, DataRecipe()).order(epoch, MANY)] = np.arange(len(MANY))
        places.append(place)
    assert abs(spearmanr(*places).statistic) < 0.03  # four standard errors of 20,000 pairs
    assert abs(spearmanr(places[0], MANY).statistic) < 0.03


def test_every_window_and_flip_is_equally_likely_and_independent_of_the_others() -> None:
    views = EpochPlan(1, DataRecipe(padding=4)).views(2, MANY, SQUARE, SQUARE)
    assert views.top.min() == -4
    assert views.top.max() == 4
    cell = ((views.top + 4) * 9 + views.left + 4) * 2 + views.flip
    counts = np.bincount(cell, minlength=162)
    assert len(counts) == 162
    assert chisquare(counts).pvalue > 1e-3
    order = np.argsort(EpochPlan(1, DataRecipe()).order(2, MANY))
    assert abs(spearmanr(order, views.left).statistic) < 0.03


def test_settings_switch_parts_of_the_augmentation_off() -> None:
    views = EpochPlan(0, DataRecipe(flip=False)).views(0, MANY, SQUARE, SQUARE)
    assert not views.flip.any()
    still = EpochPlan(0, DataRecipe(augment="none", flip=False)).views(0, MANY, SQUARE, SQUARE)
    assert not still.top.any()
    assert not still.left.any()
    assert (still.height == 32).all()


@given(
    seed=st.integers(0, 1000),
    height=st.integers(1, 400),
    width=st.integers(1, 400),
    ratio=st.sampled_from([(3 / 4, 4 / 3), (3.0, 4.0), (0.2, 0.25)]),
)
@example(seed=0, height=9, width=1, ratio=(3.0, 4.0))
@example(seed=0, height=1, width=9, ratio=(0.2, 0.25))
def test_resized_crops_lie_within_the_picture(
    seed: int, height: int, width: int, ratio: tuple[float, float]
) -> None:
    plan = EpochPlan(seed, DataRecipe(augment="random-resized-crop", ratio=ratio))
    rows = np.arange(50, dtype=np.int64)
    views = plan.views(0, rows, np.full(50, height, np.int32), np.full(50, width, np.int32))
    assert (views.top >= 0).all()
    assert (views.left >= 0).all()
    assert (views.height >= 1).all()
    assert (views.width >= 1).all()
    assert (views.top + views.height <= height).all()
    assert (views.left + views.width <= width).all()


def test_resized_crops_have_the_area_and_the_aspect_that_torchvision_draws() -> None:
    import torch
    from torchvision.transforms import RandomResizedCrop

    high, wide, count = 300, 500, 4000
    plan = EpochPlan(0, DataRecipe(augment="random-resized-crop"))
    rows = np.arange(count, dtype=np.int64)
    ours = plan.views(0, rows, np.full(count, high, np.int32), np.full(count, wide, np.int32))
    torch.manual_seed(0)
    blank = torch.empty(3, high, wide, device="meta")
    theirs = np.array(
        [RandomResizedCrop.get_params(blank, [0.08, 1.0], [3 / 4, 4 / 3]) for _ in range(count)]
    )
    for mine, other in zip((ours.top, ours.left, ours.height, ours.width), theirs.T, strict=True):
        spread = other.std() / np.sqrt(count)
        assert abs(mine.mean() - other.mean()) < 5 * spread
        assert abs(mine.std() / other.std() - 1) < 0.06


def test_a_picture_that_no_draw_fits_gives_its_largest_centred_window() -> None:
    plan = EpochPlan(0, DataRecipe(augment="random-resized-crop", scale=(1.0, 1.0)))
    one = np.array([0], dtype=np.int64)
    views = plan.views(0, one, np.array([30], np.int32), np.array([300], np.int32))
    # 30 high and at most 4/3 as wide is 40, in the middle of 300.
    assert (views.top[0], views.left[0], views.height[0], views.width[0]) == (0, 130, 30, 40)


@given(size=st.integers(0, 300), workers=st.integers(1, 9))
def test_the_shares_of_all_workers_make_up_the_batch(size: int, workers: int) -> None:
    whole = list(range(size))
    shares = [whole[worker_share(size, rank, workers)] for rank in range(workers)]
    assert [row for share in shares for row in share] == whole
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
