"""Drawn operations: the same distribution as torchvision's own transforms have over 10,000 pictures."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from torchvision.transforms import v2

from mptctl.data.augmentation.drawing import OPERATIONS, Transforms, compute_amounts
from mptctl.data.plan import EpochPlan
from mptctl.recipe import DataRecipe

MANY = 10_000
ROWS = np.arange(MANY)
SIZE = 32


def drawn(*steps: dict[str, Any], epoch: int = 0, seed: int = 0, size: int = SIZE) -> Transforms:
    data = DataRecipe.model_validate({"image_size": size, "transforms": list(steps)})
    transforms = EpochPlan(seed, data).transforms(epoch, ROWS)
    assert transforms is not None
    return transforms


def recording(kind: type[Any]) -> Any:
    """A transform of torchvision that notes its draws, and leaves the picture as it is."""

    class Recording(kind):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.seen: list[tuple[str, float]] = []

        def _apply_image_or_video_transform(self, image: Any, name: str, magnitude: float, **how: Any) -> Any:
            self.seen.append((name, magnitude))
            return image

    torch.manual_seed(0)
    transform, picture = Recording(), torch.zeros(3, SIZE, SIZE, dtype=torch.uint8)
    for _ in range(MANY):
        transform(picture)
    return transform


def amount(name: str, magnitude: float, space: str, bins: int) -> float:
    """The argument of torchvision's function for a magnitude that it drew, found in our table by its place."""
    wide = space == "wide"
    makers = (v2.TrivialAugmentWide if wide else v2.RandAugment)._AUGMENTATION_SPACE
    maker, _ = makers.get(name, (lambda *sizes: None, False))
    magnitudes = maker(bins, SIZE, SIZE)
    if magnitudes is None:
        return 0.0
    place = magnitudes.double().tolist().index(abs(magnitude))
    table = compute_amounts("wide" if wide else "usual", bins, SIZE)
    return float(table[OPERATIONS.index(name), place, int(magnitude < 0)])


@pytest.mark.parametrize(
    ("name", "theirs", "space", "bins"),
    [("rand-augment", v2.RandAugment, "usual", 31), ("trivial-augment", v2.TrivialAugmentWide, "wide", 31)],
)
def test_operations_and_magnitudes_are_distributed_as_torchvisions(
    name: str, theirs: type[Any], space: str, bins: int
) -> None:
    # An operation of amount 0 or 1 either way is drawn with both signs.
    expected = Counter((op, amount(op, m, space, bins)) for op, m in recording(theirs).seen)
    ours: Counter[tuple[str, float]] = Counter()
    for each in drawn({"name": name}).operations:
        names = [OPERATIONS[kind] for kind in each.kinds.tolist()]
        ours.update(zip(names, each.amounts.tolist(), strict=True))
    assert set(ours) == set(expected)
    for pair, count in expected.items():
        # Five deviations of the difference of two such counts.
        assert abs(ours[pair] - count) < 5 * np.sqrt(2 * count) + 5, pair


def test_jitter_draws_factors_and_orders_as_torchvision() -> None:
    step = {"name": "color-jitter", "brightness": 0.4, "contrast": [0.5, 1.2], "hue": 0.1}
    theirs = v2.ColorJitter(brightness=0.4, contrast=(0.5, 1.2), hue=0.1)
    torch.manual_seed(0)
    params = [theirs.make_params([torch.zeros(3, 1, 1)]) for _ in range(MANY)]
    operations = drawn(step).operations
    names = np.array(OPERATIONS)[np.stack([each.kinds for each in operations])]
    amounts = np.stack([each.amounts for each in operations])
    for name, key in (("Brightness", "brightness"), ("Contrast", "contrast"), ("Hue", "hue")):
        expected = np.array([each[f"{key}_factor"] for each in params])
        found = amounts[names == name]
        assert len(found) == MANY  # once on each picture
        for part in (0.0, 0.25, 0.5, 0.75, 1.0):
            spread = expected.max() - expected.min()
            assert abs(np.quantile(found, part) - np.quantile(expected, part)) < 0.03 * spread
    assert "Color" not in names
    orders = Counter(tuple(column) for column in names.T.tolist())
    assert len(orders) == 24
    assert max(orders.values()) < 1.3 * min(orders.values())


def test_erased_rectangles_are_distributed_as_torchvisions() -> None:
    theirs = v2.RandomErasing(p=1.0)
    torch.manual_seed(0)
    params = [theirs.make_params([torch.zeros(3, SIZE, SIZE)]) for _ in range(MANY)]
    (erasures,) = drawn({"name": "random-erasing", "p": 1.0}).erasures
    for column, key in enumerate("ijhw"):
        expected = np.array([each[key] for each in params])
        found = erasures.boxes[:, column]
        assert (found.min(), found.max()) == (expected.min(), expected.max())
        assert abs(found.mean() - expected.mean()) < 0.03 * SIZE / 2
    assert ((drawn({"name": "random-erasing"}).erasures[0].boxes[:, 2] > 0).mean() - 0.5).__abs__() < 0.025


@pytest.mark.parametrize(
    ("step", "part"),
    [
        ({"name": "grayscale"}, 0.1),
        ({"name": "gaussian-blur", "kernel_size": 5, "p": 0.3}, 0.3),
        ({"name": "rotation", "degrees": 15}, 1.0),
        ({"name": "color-jitter", "saturation": 0.5, "p": 0.8}, 0.8),
    ],
)
def test_a_part_of_the_pictures_goes_through_a_step(step: dict[str, Any], part: float) -> None:
    kinds = np.stack([each.kinds for each in drawn(step).operations])
    assert abs((kinds > 0).any(axis=0).mean() - part) < 0.025


def test_angles_and_deviations_fill_their_ranges() -> None:
    (turned,) = drawn({"name": "rotation", "degrees": [-10, 30]}).operations
    assert np.allclose(np.quantile(turned.amounts, [0, 0.5, 1]), [-10, 10, 30], atol=1)
    (blurred,) = drawn({"name": "gaussian-blur", "kernel_size": 3, "sigma": [0.5, 1.5]}).operations
    assert np.allclose(np.quantile(blurred.amounts, [0, 0.5, 1]), [0.5, 1.0, 1.5], atol=0.03)


def test_a_draw_is_a_function_of_seed_epoch_row_and_step() -> None:
    step = {"name": "rand-augment"}
    one = drawn(step, epoch=3).operations
    data = DataRecipe.model_validate({"image_size": SIZE, "transforms": [step]})
    alone = EpochPlan(0, data).transforms(3, ROWS[70:75])
    for part, whole in zip(alone.operations, one, strict=True):
        assert part.kinds.tolist() == whole.kinds[70:75].tolist()
        assert part.amounts.tolist() == whole.amounts[70:75].tolist()
    both = drawn(step, step, epoch=3).operations
    assert (both[0].kinds == one[0].kinds).all()
    for other in (
        both[1],
        both[2],
        drawn(step, epoch=4).operations[0],
        drawn(step, epoch=3, seed=1).operations[0],
    ):
        assert abs((other.kinds == one[0].kinds).mean() - 1 / 14) < 0.02
