"""The step bench: three ways, each with a speed."""

from __future__ import annotations

import torch

from mptctl.bench.step import bench_step
from tests.common import short_recipe


def test_each_way_is_timed() -> None:
    recipe = short_recipe(method="mpt-kl")
    found = bench_step(recipe, num_classes=10, steps=2, repeats=3, device=torch.device("cpu"))
    assert [row.name for row in found.rows] == ["student", "plain", "ours"]
    for row in found.rows:
        assert 0 < row.slowest <= row.images_per_s <= row.fastest
    assert found.loss_backend == "reference"
    assert found.machine.cores >= 1
