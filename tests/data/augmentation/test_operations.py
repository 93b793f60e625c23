"""Operations on pixels: for given parameters, what torchvision's own transforms make of a picture."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torchvision.transforms import v2
from torchvision.transforms.v2 import functional as vision

from mptctl.data.augmentation.drawing import OPERATIONS, Erasures, Operations, Transforms, compute_amounts
from mptctl.data.augmentation.operations import erase, operate, operate_in_groups
from mptctl.data.plan import EpochPlan
from mptctl.recipe import DataRecipe
from mptctl.recipe.transforms import STEPS, RandomErasing, TrivialAugment
from tests.common import smooth_picture


def pictures(count: int, size: int) -> Tensor:
    """Pictures with edges and slopes."""
    return torch.from_numpy(np.stack([np.asarray(smooth_picture(size, size, seed)) for seed in range(count)]))


def done(step: Any, name: str, amount: float, given: Tensor) -> Tensor:
    kinds = np.full(len(given), OPERATIONS.index(name))
    operations = Operations(step, kinds, np.full(len(given), amount))
    return operate(given, Transforms((operations,), ())).permute(0, 3, 1, 2)


@pytest.mark.parametrize(
    "how", [{}, {"interpolation": "bilinear", "fill": 90}, {"fill": [9, 80, 200]}], ids=str
)
@pytest.mark.parametrize("name", OPERATIONS[1:14])
def test_an_operation_of_a_space_makes_torchvisions_pixels(name: str, how: dict[str, Any]) -> None:
    noise = np.random.default_rng(0).integers(0, 256, (33, 33, 3), dtype=np.uint8)
    two_levels, dark = (noise > 99) * np.uint8(200), noise // 128
    more = torch.from_numpy(np.stack([noise, two_levels, dark, np.full_like(noise, 77)]))
    given = torch.cat([pictures(2, 33), more])
    step = TrivialAugment.model_validate(how)
    # torchvision 0.26 knows no names of them.
    modes = {key: v2.InterpolationMode(how[key]) for key in how if key == "interpolation"}
    theirs = v2.TrivialAugmentWide(**how | modes)
    maker, signed = v2.RandAugment._AUGMENTATION_SPACE[name]
    table = compute_amounts("usual", 31, 33)[OPERATIONS.index(name)]
    for place in (0, 7, 30):
        magnitudes = maker(31, 33, 33)
        for side in (0, 1) if signed else (0,):
            magnitude = 0.0 if magnitudes is None else float(magnitudes[place]) * (1 - 2 * side)
            found = done(step, name, float(table[place, side]), given)
            for picture, ours in zip(given, found, strict=True):
                expected = theirs._apply_image_or_video_transform(
                    picture.permute(2, 0, 1).contiguous(), name, magnitude,
                    interpolation=theirs.interpolation, fill=theirs._fill,
                )  # fmt: skip
                assert torch.equal(ours, expected)


def test_other_operations_make_torchvisions_pixels() -> None:
    given = pictures(2, 40)
    first = given.permute(0, 3, 1, 2).contiguous()
    jitter = STEPS["color-jitter"].model_validate({"hue": 0.3})
    assert torch.equal(done(jitter, "Hue", 0.21, given), vision.adjust_hue(first, 0.21))
    grey = STEPS["grayscale"].model_validate({})
    assert torch.equal(done(grey, "Grayscale", 0.0, given), vision.rgb_to_grayscale(first, 3))
    blur = STEPS["gaussian-blur"].model_validate({"kernel_size": 5})
    assert torch.equal(done(blur, "Blur", 1.3, given), vision.gaussian_blur(first, [5, 5], [1.3, 1.3]))
    turn = STEPS["rotation"].model_validate({"degrees": 40})
    assert torch.equal(done(turn, "Rotate", -33.3, given), vision.rotate(first, -33.3, fill=0))


def test_pictures_that_share_an_operation_are_done_together_as_each_by_itself() -> None:
    """The way of a GPU, on a CPU."""
    given = pictures(60, 24)
    data = DataRecipe.model_validate({"image_size": 24, "transforms": ["trivial-augment", "rand-augment"]})
    drawn = EpochPlan(0, data).transforms(0, np.arange(60))
    together = given.permute(0, 3, 1, 2).contiguous()
    for operations in drawn.operations:
        operate_in_groups(together, operations)
    assert torch.equal(together.permute(0, 2, 3, 1), operate(given, drawn))


def test_operations_follow_one_another_and_leave_what_they_were_given() -> None:
    given = pictures(2, 24)
    before = given.clone()
    step = TrivialAugment()
    drawn = [
        Operations(step, np.array([OPERATIONS.index("Solarize"), 0]), np.zeros(2)),
        Operations(step, np.array([OPERATIONS.index("Posterize")] * 2), np.full(2, 3.0)),
    ]
    found = operate(given, Transforms(tuple(drawn), ()))
    assert torch.equal(found[0], (255 - given[0]) & 0b11100000)
    assert torch.equal(found[1], given[1] & 0b11100000)
    assert torch.equal(given, before)


def test_a_rectangle_is_erased_as_torchvision_erases_it() -> None:
    images = torch.randn(3, 20, 20, 3, generator=torch.Generator().manual_seed(0))
    boxes = np.array([[2, 3, 5, 9], [0, 0, 0, 0], [15, 0, 5, 20]])
    for value in (0.0, 1.5, (0.1, -0.2, 0.3)):
        found = images.clone()
        erase(found, Transforms((), (Erasures(RandomErasing(value=value), boxes, np.zeros(3, np.uint64)),)))
        for image, ours, (top, left, height, width) in zip(images, found, boxes.tolist(), strict=True):
            filling = torch.tensor(value).view(-1, 1, 1)
            theirs = vision.erase(image.permute(2, 0, 1), top, left, height, width, filling)
            assert torch.equal(ours.permute(2, 0, 1), theirs)


def test_random_filling_is_normal_noise_of_the_pictures_key() -> None:
    step = RandomErasing.model_validate({"value": "random"})
    boxes = np.array([[0, 0, 60, 60]] * 3)
    images = torch.full((3, 64, 64, 3), 7.0)
    erase(images, Transforms((), (Erasures(step, boxes, np.array([1, 2, 1], np.uint64)),)))
    noise = images[:, :60, :60]
    assert (images[:, 60:] == 7).all()
    assert torch.equal(noise[0], noise[2])
    assert not torch.equal(noise[0], noise[1])
    assert abs(float(noise.mean())) < 0.03
    assert abs(float(noise.std()) - 1) < 0.03
