"""The loaders: the same pictures from each, and what Pillow and torchvision make of the files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor
from torchvision.transforms import v2

from mptctl.data.loading.base import Loader
from mptctl.data.plan import EpochPlan
from mptctl.data.split import Split
from tests.common import KINDS, MakeLoader, levels

CROP = {"augment": "random-resized-crop"}


def one_epoch(loader: Loader, epoch: int = 1, start: int = 0) -> tuple[Tensor, list[int], list[int]]:
    """Grey levels, labels and indices of a pass."""
    batches = list(loader.epoch(epoch, start))
    images = torch.cat([levels(loader, batch.images) for batch in batches])
    labels = torch.cat([batch.labels for batch in batches])
    return images, labels.tolist(), torch.cat([batch.index for batch in batches]).tolist()


@pytest.mark.parametrize("kind", KINDS)
def test_a_training_picture_is_what_the_plan_says_of_the_file(
    same_size: Split, loader_of: MakeLoader, kind: str
) -> None:
    """Each picture of a batch against Pillow and the plan, by hand: pad, cut, mirror, normalise."""
    split, loader = same_size, loader_of(same_size, kind, batch_size=24)
    (batch,) = loader.epoch(2)
    plan = EpochPlan(3, loader.plan.data)
    assert batch.index.tolist() == plan.order(2, split.indices("train")).tolist()
    assert batch.images.is_contiguous(memory_format=torch.channels_last)
    size = np.full(24, 32, dtype=np.int32)
    views = plan.views(2, batch.index.numpy(), size, size)
    for row, index in enumerate(batch.index.tolist()):
        stored = np.asarray(Image.open(split.manifest.file(index)).convert("RGB"))
        padded = np.pad(stored, ((4, 4), (4, 4), (0, 0)))
        top, left = views.top[row] + 4, views.left[row] + 4
        expected = padded[top : top + 32, left : left + 32]
        if views.flip[row]:
            expected = expected[:, ::-1]
        scaled = (expected / 255 - loader.plan.data.mean) / loader.plan.data.std
        torch.testing.assert_close(
            batch.images[row].permute(1, 2, 0), torch.from_numpy(scaled).float(), atol=1e-5, rtol=0
        )
        assert int(batch.labels[row]) == split.labels[index]


@pytest.mark.parametrize("setting", [{}, {"image_size": 40}, {"augment": "none"}], ids=str)
def test_all_loaders_give_the_same_training_pictures(
    split: Split, loader_of: MakeLoader, setting: dict[str, object]
) -> None:
    images, labels, index = one_epoch(loader_of(split, "threaded", **setting))
    for kind in KINDS:
        other, other_labels, other_index = one_epoch(loader_of(split, kind, **setting))
        assert (other_labels, other_index) == (labels, index)
        # Decoding is equal to the bit; resizing rounds by its own way, and a thousandth is the float's.
        assert (other - images).abs().max() <= (1.001 if kind == "dali" else 0.001)


def test_random_resized_crops_are_the_same_but_for_the_outermost_pixels(
    split: Split, loader_of: MakeLoader
) -> None:
    images, _, index = one_epoch(loader_of(split, "threaded", **CROP))
    other, _, other_index = one_epoch(loader_of(split, "dali", **CROP))
    assert other_index == index
    assert (other - images).abs()[..., 1:-1, 1:-1].max() <= 1.001
    assert (other - images).abs().mean() < 0.5


@pytest.mark.parametrize(
    "setting",
    [{"image_size": 90, **CROP}, {"image_size": 224, "eval_resize": 248, "part": "test", "train": False}],
    ids=str,
)
def test_bicubic_pictures_are_the_same_but_for_rounding_and_the_edges_of_crops(
    real_split: Split, loader_of: MakeLoader, setting: dict[str, object]
) -> None:
    """torchvision rounds between rows and columns, DALI does not: where a filter overshoots, that is seen."""
    setting = {**setting, "interpolation": "bicubic"}
    images, _, index = one_epoch(loader_of(real_split, "threaded", **setting))
    other, _, other_index = one_epoch(loader_of(real_split, "dali", **setting))
    assert other_index == index
    apart = (other - images).abs()[..., 2:-2, 2:-2]
    assert apart.mean() < 0.4
    assert (apart > 1.001).float().mean() < 0.001


@pytest.mark.parametrize(("size", "resize"), [(32, None), (32, 36), (32, 33), (100, None), (100, 140)])
@pytest.mark.parametrize("kind", KINDS)
def test_evaluation_sees_what_torchvision_sees(
    split: Split, loader_of: MakeLoader, kind: str, size: int, resize: int | None
) -> None:
    difference = differences(split, loader_of, kind, image_size=size, eval_resize=resize)
    # 1/255 is one grey level; torchvision's own tensors and Pillow differ by that much.
    assert difference.max() <= 1.001
    assert difference.mean() < 0.4


@pytest.mark.parametrize(("size", "resize"), [(224, 256), (64, 80)])
def test_evaluation_of_real_photographs_is_torchvisions(
    real_split: Split, loader_of: MakeLoader, size: int, resize: int
) -> None:
    difference = differences(real_split, loader_of, "dali", image_size=size, eval_resize=resize)
    assert difference.max() <= 1.001
    assert difference.mean() < 0.4


@pytest.mark.parametrize("kind", ["resident", "threaded"])
def test_bicubic_evaluation_is_torchvisions(split: Split, loader_of: MakeLoader, kind: str) -> None:
    keys = {"image_size": 32, "eval_resize": 35, "interpolation": "bicubic"}
    assert differences(split, loader_of, kind, **keys).mean() < 0.4


def differences(split: Split, loader_of: MakeLoader, kind: str, **keys: Any) -> Tensor:
    """Grey levels between the pictures of an evaluation and those of torchvision and Pillow."""
    loader = loader_of(split, kind, part="test", train=False, batch_size=5, **keys)
    images, _, index = one_epoch(loader)
    assert index == split.indices("test").tolist()
    how = v2.InterpolationMode(loader.plan.data.interpolation)
    size, resize = keys["image_size"], keys["eval_resize"]
    eyes = v2.Compose([v2.Resize(resize or size, how), v2.CenterCrop(size), v2.PILToTensor()])
    expected = [eyes(Image.open(split.manifest.file(i)).convert("RGB")) for i in index]
    return (images - torch.stack(expected)).abs()


@pytest.mark.parametrize("kind", KINDS)
def test_a_batch_stays_as_it_is_while_others_come_and_after_the_end(
    split: Split, loader_of: MakeLoader, kind: str
) -> None:
    loader = loader_of(split, kind)
    kept, copies = [], []
    for epoch in range(3):
        for batch in loader.epoch(epoch):
            kept.append(batch.images)
            copies.append(batch.images.clone())
    loader.close()
    for images, copy in zip(kept, copies, strict=True):
        assert torch.equal(images, copy)
        images.zero_()  # it is the consumer's own


@pytest.mark.parametrize("kind", KINDS)
def test_a_class_subset_sees_the_pictures_that_the_whole_sees(
    split: Split, loader_of: MakeLoader, kind: str
) -> None:
    whole, _, index = one_epoch(loader_of(split, kind, batch_size=10))
    part, labels, part_index = one_epoch(loader_of(split, kind, batch_size=5, num_classes=2))
    assert set(labels) == {0, 1}
    assert part_index == [i for i in index if split.labels[i] < 2]
    assert torch.equal(part, whole[[index.index(i) for i in part_index]])
