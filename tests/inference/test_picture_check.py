"""A wrong way to prepare pictures is found on held-out ones, and a right one brings no remark."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor, nn

from mptctl.data.loading.part import LoadPlan
from mptctl.data.split import make_split
from mptctl.inference.picture_check import BetterPreparation, Samples, find_better_preparation
from mptctl.recipe import DataRecipe

SIDE, STORED, PER_CLASS = 32, 64, 60
Draw = Callable[[np.random.Generator, int], NDArray[np.uint8] | Image.Image]


class ByStatistic(nn.Module):
    """Answers the second class where a number that it reads off a normalised picture is above a threshold."""

    def __init__(self, statistic: Callable[[Tensor], Tensor], threshold: float) -> None:
        super().__init__()
        self.statistic, self.threshold = statistic, threshold

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, 3, S, S) -> logits: (B, 2)."""
        above = self.statistic(x) - self.threshold
        return torch.stack([-above, above], dim=1)


def flat(random: np.random.Generator, label: int) -> NDArray[np.uint8]:
    """One grey level: 60 to 120 of the first class, 140 to 200 of the second."""
    return np.full((STORED, STORED, 3), random.integers(60, 120) + 80 * label, dtype=np.uint8)


def coloured(random: np.random.Generator, label: int) -> NDArray[np.uint8]:
    """More blue than red, or more red than blue."""
    picture = np.empty((STORED, STORED, 3), dtype=np.uint8)
    picture[:] = (80, 100, 150) if label == 0 else (150, 100, 80)
    return picture + random.integers(0, 50, dtype=np.uint8)


def framed(random: np.random.Generator, label: int) -> NDArray[np.uint8]:
    """Grey, with a frame that is dark or bright and narrower than what a centre crop of 0.875 cuts off."""
    picture = np.full((STORED, STORED, 3), random.integers(100, 150), dtype=np.uint8)
    edge = np.ones((STORED, STORED), dtype=bool)
    edge[3:-3, 3:-3] = False
    picture[edge] = 250 * label
    return picture


def rough(random: np.random.Generator, label: int) -> NDArray[np.uint8]:
    """Noise of fine grain, weaker in the first class: bilinear resizing makes both too weak."""
    grain = random.choice([-1.0, 1.0], size=(STORED, STORED, 1)) * (50 + 15 * label)
    return np.repeat(128 + grain, 3, axis=2).astype(np.uint8)


def turned(random: np.random.Generator, label: int) -> Image.Image:
    """The upper (class 0) or lower half is bright; half of the pictures as a phone on its head stores them."""
    grey = np.full((STORED, STORED, 3), random.integers(60, 100), dtype=np.uint8)
    grey[STORED // 2 :] += 100
    is_on_head = bool(random.integers(2))
    picture = Image.fromarray(grey[::-1] if (label == 0) != is_on_head else grey)
    picture.getexif()[0x0112] = 3 if is_on_head else 1
    return picture


def held_out(folder: Path, draw: Draw, told: DataRecipe) -> Samples:
    """Pictures of two classes in files, with the way to prepare them that is told."""
    random = np.random.default_rng(3)
    for part, count in (("train", 1), ("val", PER_CLASS)):
        for label, name in enumerate(("a", "b")):
            (folder / part / name).mkdir(parents=True)
            for number in range(count):
                picture = draw(random, label)
                if not isinstance(picture, Image.Image):
                    picture = Image.fromarray(picture)
                picture.save(folder / part / name / f"{number:02}.png", exif=picture.getexif())
    split = make_split("imagefolder", run_root=folder / "runs", data_root=folder, val_fraction=0.0)
    plan = LoadPlan(split, told, "test", 50, seed=0, train=False, device=torch.device("cpu"))
    return Samples(plan, plan.indices, split.labels[plan.indices])


def checked(folder: Path, draw: Draw, model: nn.Module, told: DataRecipe) -> BetterPreparation | None:
    """The better way that is found for a model on pictures of two classes, prepared as is told."""
    return find_better_preparation(model.eval(), held_out(folder, draw, told), any_size=True)


def pixels(**keys: object) -> DataRecipe:
    return DataRecipe.model_validate({"image_size": SIDE, "mean": (0.5,) * 3, "std": (0.5,) * 3} | keys)


BRIGHTNESS = ByStatistic(lambda x: x.mean(dim=(1, 2, 3)), 0.0)
COLOUR = ByStatistic(lambda x: (x[:, 0] - x[:, 2]).mean(dim=(1, 2)), 0.0)
UPPER = ByStatistic(lambda x: (x[:, :, SIDE // 2 :] - x[:, :, : SIDE // 2]).mean(dim=(1, 2, 3)), 0.0)
FRAME = ByStatistic(lambda x: x[:, :, 0].mean(dim=(1, 2)), 0.0)


def blue_first(model: nn.Module) -> nn.Module:
    """The same for pictures in BGR."""
    turn = nn.Conv2d(3, 3, 1, bias=False)
    with torch.no_grad():
        turn.weight.copy_(torch.eye(3).flip(0)[:, :, None, None])
    return nn.Sequential(turn, model)


def grain(x: Tensor) -> Tensor:
    return x.std(dim=(1, 2, 3))


@pytest.mark.parametrize(
    ("draw", "model", "wrong", "flags"),
    [
        (turned, UPPER, {"exif": "ignore"}, "--set 'data.exif=\"apply\"'"),
        (flat, BRIGHTNESS, {"mean": (0.0,) * 3}, "--set 'data.mean=[0.5,0.5,0.5]'"),
        (framed, FRAME, {"eval_resize": 36}, "--set data.eval_resize=null"),
        (coloured, COLOUR, "bgr", "--channels bgr"),
    ],
)
def test_a_wrong_way_is_found_and_the_right_one_brings_no_remark(
    draw: Draw, model: nn.Module, wrong: dict[str, object] | str, flags: str, tmp_path: Path
) -> None:
    right = {"exif": "apply"} if draw is turned else {}
    assert checked(tmp_path / "right", draw, model, pixels(**right)) is None
    told = pixels() if isinstance(wrong, str) else pixels(**wrong)
    model = blue_first(model) if wrong == "bgr" else model
    better = checked(tmp_path / "wrong", draw, model, told)
    assert better is not None
    assert better.error.count == 0
    assert better.error_before.count >= PER_CLASS // 3
    assert better.flags(told, "rgb") == flags


def test_another_interpolation_is_found(tmp_path: Path) -> None:
    from mptctl.data.pictures import resize_and_crop

    def strength(label: int) -> float:
        picture = torch.from_numpy(rough(np.random.default_rng(0), label))
        small = resize_and_crop(picture, SIDE, SIDE, "bicubic").double() / 127.5 - 1
        return float(small.std())

    model = ByStatistic(grain, (strength(0) + strength(1)) / 2)
    assert checked(tmp_path / "right", rough, model, pixels(interpolation="bicubic")) is None
    told = pixels()
    better = checked(tmp_path / "wrong", rough, model, told)
    assert better is not None
    assert better.flags(told, "rgb") == "--set 'data.interpolation=\"bicubic\"'"


class ForOneSize(nn.Module):
    """Answers a colour in pictures of one size, the first class in all others, and takes none below 40 pixels."""

    def __init__(self, size: int, error: type[Exception] = RuntimeError) -> None:
        super().__init__()
        self.size, self.error = size, error

    def forward(self, x: Tensor) -> Tensor:
        if x.shape[2] < 40:
            raise self.error("output size is too small")
        logits: Tensor = COLOUR(x)
        return logits if x.shape[2] == self.size else torch.zeros_like(logits)


# timm's networks of one size raise AssertionError.
@pytest.mark.parametrize(("size", "error"), [(STORED, RuntimeError), (96, AssertionError)])
def test_another_size_is_found(tmp_path: Path, size: int, error: type[Exception]) -> None:
    told = pixels(image_size=128, eval_resize=146)
    better = checked(tmp_path, coloured, ForOneSize(size, error), told)
    assert better is not None
    assert better.flags(told, "rgb") == f"--size {size}"
    samples = held_out(tmp_path / "again", coloured, told)
    assert find_better_preparation(ForOneSize(size).eval(), samples, any_size=False) is None
