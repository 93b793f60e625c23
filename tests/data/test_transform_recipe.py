"""Keys of a recipe's `data` group: transforms, interpolation, crop; what is refused, and what stays."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from mptctl.data.plan import EpochPlan
from mptctl.errors import UsageError
from mptctl.models.export_meta import Preprocessing
from mptctl.recipe import DataRecipe, load_recipe
from mptctl.recipe.picture_words import describe_evaluation_pictures, describe_training_pictures
from mptctl.recipe.transforms import RandAugment, RandomErasing


@pytest.mark.parametrize(
    ("steps", "message"),
    [
        ("[{name: rand-augment, magnitud: 3}]", "[0] (rand-augment): unknown key magnitud; did you mean magnitude?"),
        ("[{name: grayscale}, {name: rand-augmen}]", "[1]: no such step: 'rand-augmen'; did you mean rand-augment?"),
        ("[{name: rand-augment, magnitude: 31}]", "magnitude: must be below num_magnitude_bins, 31, got 31"),
        ("[{name: color-jitter}]", "(color-jitter): changes nothing; set brightness"),
        ("[{name: color-jitter, hue: 0.7}]", "hue: must be within -0.5 to 0.5, the smaller first, got [-0.7, 0.7]"),
        ("[{name: color-jitter, contrast: [-1, 2]}]", "contrast: must be at least 0, the smaller first, got [-1"),
        ("[{name: gaussian-blur}]", "(gaussian-blur): kernel_size: is missing"),
        ("[{name: gaussian-blur, kernel_size: 4}]", "kernel_size: must be odd, got 4"),
        ("[{name: gaussian-blur, kernel_size: 33}]", "kernel_size: must be below twice data.image_size, 16, got 33"),
        ("[{name: gaussian-blur, kernel_size: 3, sigma: 0}]", "sigma: must be above 0"),
        ("[{name: rotation, degrees: -3}]", "degrees: must be at least 0, or the smaller first, got -3"),
        ("[{name: rotation, degrees: 3, fill: 300}]", "(rotation): fill: must be within 0 to 255, got [300"),
        ("[{name: trivial-augment, fill: [0, -3, 0]}]", "fill: must be within 0 to 255, got [0"),
        ("[{name: random-erasing, p: 2}]", "(random-erasing): p: must be less than or equal to 1, got 2"),
        ("[{name: random-erasing, ratio: [0, 1]}]", "ratio: must be above 0"),
        ("[{name: random-erasing, scale: [0.5, 0.1]}]", "scale: must be within 0 to 1"),
        ("[{p: 2}]", "data.transforms[0]: must be a mapping with a name"),
    ],
)  # fmt: skip
def test_wrong_steps_are_refused_by_place_and_name(steps: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        load_recipe("characters", [f"data.transforms={steps}"])
    assert message in str(refused.value)
    assert "\n" not in str(refused.value)


def test_steps_from_the_command_line_and_from_a_file_survive_their_yaml(tmp_path: Path) -> None:
    given = "[{name: rand-augment, magnitude: 5}, {name: random-erasing, p: 0.25, value: random}, trivial-augment]"
    recipe = load_recipe("digits", [f"data.transforms={given}"])
    first, second, third = recipe.data.transforms
    assert first == RandAugment(magnitude=5)
    assert second == RandomErasing(p=0.25, value=None)
    assert third.name == "trivial-augment"
    assert load_recipe("digits", ["data.transforms=trivial-augment"]).data.transforms == (third,)
    file = tmp_path / "recipe.yaml"
    file.write_text(recipe.to_yaml())
    assert load_recipe(str(file)) == recipe
    file.write_text(f"data:\n  transforms: {given}\n")
    assert load_recipe(str(file)).data.transforms == recipe.data.transforms
    file.write_text("data:\n  transforms: rand-augment\n")
    with pytest.raises(UsageError, match=r"must be a list such as .*, got 'rand-augment'"):
        load_recipe(str(file))


def test_the_size_that_comes_with_published_weights_follows_the_size_that_a_person_sets() -> None:
    described = {"image_size": 224, "eval_resize": 248}
    assert load_recipe("imagenet", described=described).data.eval_resize == 248
    assert load_recipe("imagenet", ["data.image_size=64"], described=described).data.eval_resize == 71
    assert load_recipe("imagenet", ["data.eval_resize=230"], described=described).data.eval_resize == 230


def test_words_say_steps_interpolation_and_crop() -> None:
    steps = "[{name: random-erasing, p: 0.25, value: random}, {name: rand-augment, magnitude: 5}, grayscale]"
    data = load_recipe(
        "imagenet", [f"data.transforms={steps}", "data.interpolation=bicubic", "data.eval_resize=235"]
    ).data
    said = describe_training_pictures(data)
    assert "224 x 224 (bicubic), half of them mirrored, rand-augment (magnitude 5), grayscale, mean" in said
    assert said.endswith("random-erasing (p 0.25, value random)")
    assert describe_evaluation_pictures(data).startswith(
        "shorter side to 235 pixels (bicubic), centre crop of 224 x 224"
    )


def test_an_export_says_how_its_pictures_are_resized() -> None:
    seen = {"resize": 40, "crop": 32, "mean": (0.5, 0.5, 0.5), "std": (0.2, 0.2, 0.2), "inside": False}
    before, now = (Preprocessing.model_validate(seen | more) for more in ({}, {"interpolation": "bicubic"}))
    assert [DataRecipe(**each.recipe_keys()).interpolation for each in (before, now)] == [
        "bilinear",
        "bicubic",
    ]


def test_ratio_limits_the_aspect_of_resized_crops() -> None:
    rows = np.arange(500, dtype=np.int64)
    side = np.full(500, 1000, dtype=np.int32)
    for ratio in ((1.0, 1.0), (2.0, 3.0)):
        data = DataRecipe(augment="random-resized-crop", scale=(0.1, 0.2), ratio=ratio)
        views = EpochPlan(0, data).views(0, rows, side, side)
        aspects = views.width / views.height
        # Sides are whole numbers, which moves an aspect by less than a hundredth here.
        assert ratio[0] - 0.01 <= aspects.min()
        assert aspects.max() <= ratio[1] + 0.01
    assert aspects.max() - aspects.min() > 0.9  # the whole range is drawn


@pytest.mark.parametrize("value", [-0.1, 1.1])
def test_the_hardware_decoders_part_lies_between_none_and_all(value: float) -> None:
    with pytest.raises(UsageError, match=r"data\.hw_decoder_load"):
        load_recipe("digits", [f"data.hw_decoder_load={value}"])
