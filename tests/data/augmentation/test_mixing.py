"""Pictures that are mixed, and classes that are drawn more often."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import beta, kstest
from torchvision.transforms import v2

from mptctl.data.augmentation.mixing import Pairs
from mptctl.data.augmentation.sampling import Draws
from mptctl.data.loading.mixed import IGNORED, mix_labels, mix_pictures
from mptctl.data.plan import EpochPlan, random_keys
from mptctl.errors import UsageError
from mptctl.recipe import DataRecipe, load_recipe

SIZE = 16


def pairs_of(count: int, *, seed: int = 3, epoch: int = 1, position: int = 0, **data: float) -> Pairs:
    recipe = DataRecipe.model_validate({"image_size": SIZE, **data})
    pairs = EpochPlan(seed, recipe).pairs(epoch, position, 2 * count)
    assert pairs is not None
    return pairs


def area(pairs: Pairs) -> np.ndarray:
    boxes = pairs.boxes
    return (boxes[:, 1] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 2])


@pytest.mark.parametrize("alpha", [0.2, 1.0, 5.0])
def test_lambda_is_of_the_beta_distribution(alpha: float) -> None:
    pairs = pairs_of(10_000, mixup=alpha)
    # In steps of 1 / 65,536, so that 1 - lambda is a float32 number too.
    theirs = np.rint(beta(alpha, alpha).rvs(10_000, random_state=0) * 65536) / 65536
    assert kstest(pairs.kept, theirs).pvalue > 1e-3
    assert (pairs.kept * 65536 == np.rint(pairs.kept * 65536)).all()
    assert np.array_equal(pairs.kept, pairs.weight)
    assert not area(pairs).any()


def test_boxes_are_distributed_as_torchvisions() -> None:
    ours = pairs_of(4_000, cutmix=1.0)
    transform, picture = v2.CutMix(num_classes=2), torch.zeros(2, 3, SIZE, SIZE)
    torch.manual_seed(0)
    theirs = [transform.make_params([picture]) for _ in range(4_000)]
    for column, place in ((0, 1), (1, 3), (2, 0), (3, 2)):  # torchvision's boxes are x1, y1, x2, y2
        values = [params["box"][place] for params in theirs]
        assert kstest(ours.boxes[:, column], values).pvalue > 1e-3
    assert kstest(ours.weight, [params["lam_adjusted"] for params in theirs]).pvalue > 1e-3
    np.testing.assert_allclose(ours.weight, 1 - area(ours) / SIZE**2, rtol=1e-6)
    assert (ours.kept == 1).all()


def test_part_of_the_pairs_is_mixed_and_of_those_half_by_each() -> None:
    pairs = pairs_of(20_000, mixup=1.0, cutmix=1.0, mix_probability=0.6)
    by_box, by_weight = area(pairs) > 0, pairs.kept < 1
    assert not (by_box & by_weight).any()
    # Boxes of no area, and a lambda of 1, are a thousandth of the draws or less.
    assert by_weight.mean() == pytest.approx(0.3, abs=0.015)
    assert by_box.mean() == pytest.approx(0.3, abs=0.015)


def test_pairs_are_functions_of_seed_epoch_and_pair() -> None:
    whole = pairs_of(50, mixup=1.0, cutmix=1.0)
    part = pairs_of(20, mixup=1.0, cutmix=1.0, position=2 * 17)
    for name in ("kept", "boxes", "weight"):
        np.testing.assert_array_equal(getattr(part, name), getattr(whole, name)[17:37])
    for other in (pairs_of(50, mixup=1.0, cutmix=1.0, seed=4), pairs_of(50, mixup=1.0, cutmix=1.0, epoch=2)):
        assert (other.kept != whole.kept).any()
        assert (other.boxes != whole.boxes).any()


@pytest.mark.parametrize("key", ["mixup", "cutmix"])
def test_a_pair_is_mixed_as_torchvision_mixes_a_batch_of_two(key: str) -> None:
    """Its partner in a batch is the picture before, so that of two each is the other's."""
    torch.manual_seed(1)
    pairs = pairs_of(30, **{key: 1.0})
    pictures = torch.randn(60, SIZE, SIZE, 3)
    labels = torch.arange(60) % 7
    mixed = mix_pictures(pictures.clone(), pairs)
    own, (others, weight) = mix_labels(labels, pairs)
    for i in range(30):
        two = slice(2 * i, 2 * i + 2)
        if key == "mixup":
            transform, params = v2.MixUp(num_classes=7), {"lam": float(pairs.kept[i])}
        else:
            first_row, end_row, first_column, end_column = pairs.boxes[i].tolist()
            params = {
                "box": (first_column, first_row, end_column, end_row),
                "lam_adjusted": 1 - (end_row - first_row) * (end_column - first_column) / SIZE**2,
            }
            transform = v2.CutMix(num_classes=7)
        images = pictures[two].permute(0, 3, 1, 2).contiguous()
        of_two = labels[two]  # torchvision knows labels by identity
        params |= {"labels": of_two, "batch_size": 2}
        expected = transform.transform(images, params).permute(0, 2, 3, 1)
        assert torch.equal(mixed[two], expected)
        target = transform.transform(of_two, params)
        for row, (y, other, w) in enumerate(zip(own[two], others[two], weight[two], strict=True)):
            ours = torch.zeros(7)
            if y != IGNORED:
                ours[y] += w
            if other != IGNORED:
                ours[other] += 1 - w
            torch.testing.assert_close(ours, target[row])


def test_labels_that_weigh_nothing_are_ignored_and_equal_ones_are_one() -> None:
    kept = np.array([1.0, 0.0, 0.25, 0.25], dtype=np.float32)
    pairs = Pairs(kept, np.zeros((4, 4), dtype=np.int64), kept)
    own, (others, weight) = mix_labels(torch.tensor([1, 2, 3, 4, 5, 6, 7, 7]), pairs)
    assert own.tolist() == [1, 2, IGNORED, IGNORED, 5, 6, 7, 7]
    assert others.tolist() == [IGNORED, IGNORED, 4, 3, 6, 5, IGNORED, IGNORED]
    assert weight.tolist() == [1, 1, 0, 0, 0.25, 0.25, 1, 1]


def test_a_probability_of_nothing_is_refused() -> None:
    with pytest.raises(
        UsageError, match=r"data\.mix_probability: changes nothing where no pictures are mixed"
    ):
        load_recipe("digits", ["data.mix_probability=0.5"])
    assert load_recipe("digits", ["data.mixup=0.2", "data.mix_probability=0.5"]).data.mixes


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
