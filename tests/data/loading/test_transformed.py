"""Transformed pictures: what the plan says, and the same from all loaders."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from mptctl.data.augmentation.operations import erase, operate
from mptctl.data.loading.base import Loader
from mptctl.data.pictures import channels_first, crop_and_flip
from mptctl.data.plan import EpochPlan
from mptctl.data.split import Split
from tests.common import KINDS, MakeLoader

ALL: list[dict[str, Any]] = [
    {"name": "color-jitter", "brightness": 0.3, "contrast": 0.3, "saturation": 0.3, "hue": 0.1},
    {"name": "rand-augment"},
    {"name": "trivial-augment", "interpolation": "bilinear", "fill": [9, 80, 200]},
    {"name": "grayscale", "p": 0.3},
    {"name": "gaussian-blur", "kernel_size": 3, "p": 0.5},
    {"name": "rotation", "degrees": 10},
    {"name": "random-erasing", "p": 0.7, "value": "random"},
]


def one_epoch(loader: Loader, start: int = 0) -> torch.Tensor:
    return torch.cat([batch.images for batch in loader.epoch(1, start)])


def test_a_picture_is_what_the_plan_says(same_size: Split, loader_of: MakeLoader) -> None:
    loader = loader_of(same_size, "threaded", transforms=ALL, batch_size=24)
    (batch,) = loader.epoch(2)
    plan, rows = EpochPlan(3, loader.plan.data), batch.index.numpy()
    manifest = same_size.manifest
    views = plan.views(2, rows, manifest.heights[rows], manifest.widths[rows])
    transforms = plan.transforms(2, rows)
    assert transforms is not None
    cut = torch.stack(
        [
            crop_and_flip(loader.plan.picture(i), loader.plan.data, views, row)
            for row, i in enumerate(rows.tolist())
        ]
    )
    expected = loader.normalise(operate(cut, transforms))
    erase(expected, transforms)
    assert torch.equal(batch.images, channels_first(expected))
    assert not torch.equal(batch.images, channels_first(loader.normalise(cut)))


@pytest.mark.parametrize("kind", KINDS)
def test_all_loaders_give_the_same_bits(same_size: Split, loader_of: MakeLoader, kind: str) -> None:
    images = one_epoch(loader_of(same_size, "threaded", transforms=ALL))
    other = one_epoch(loader_of(same_size, kind, transforms=ALL))
    assert torch.equal(other, images)


@pytest.mark.parametrize("kind", KINDS)
def test_evaluation_is_not_transformed(same_size: Split, loader_of: MakeLoader, kind: str) -> None:
    plain, transformed = (
        torch.cat(
            [batch.images for batch in loader_of(same_size, kind, part="test", train=False, **data).epoch(0)]
        )
        for data in ({}, {"transforms": ALL})
    )
    assert torch.equal(plain, transformed)
