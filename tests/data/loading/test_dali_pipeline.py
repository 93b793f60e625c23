"""DALI's pipeline, and the pictures whose geometry it declines."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from torchvision.transforms.v2 import functional as vision

from mptctl.data.loading.dali_pipeline import (
    compute_resize_and_crop,
    decoder_settings,
)
from mptctl.data.loading.part import LoadPlan
from mptctl.data.pictures import resize_and_crop
from mptctl.data.split import Split, make_split
from mptctl.errors import UsageError
from mptctl.recipe import DataRecipe
from tests.common import CPU, MakeLoader


@pytest.mark.parametrize(
    ("side", "resize", "interpolation", "taken"),
    [
        (33, 33, "bicubic", True),  # kept as it is
        (40, 34, "bicubic", False),
        (40, 36, "bicubic", True),
        (24, 35, "bicubic", False),
        (24, 36, "bicubic", True),
        (8, 44, "bicubic", False),  # the larger the factor, the more pixels the filter carries the edge to
        (24, 32, "bilinear", True),
        (33, 33, "bilinear", True),
        (40, 33, "bilinear", False),
        (40, 34, "bilinear", True),
    ],
)
def test_dali_takes_what_it_resizes_as_torchvision_does(
    tmp_path: Path, loader_of: MakeLoader, side: int, resize: int, interpolation: str, taken: bool
) -> None:
    pytest.importorskip("nvidia.dali", reason="DALI is not installed")
    rng = np.random.default_rng(0)
    for part in ("train", "val"):
        for name in ("a", "b"):
            (tmp_path / "pictures" / part / name).mkdir(parents=True)
            # Grey levels that no filter carries beyond 0 and 255, where the two clip in different steps.
            noise = rng.integers(70, 190, (side, side + 9, 3), dtype=np.uint8)
            Image.fromarray(noise).save(tmp_path / "pictures" / part / name / "0.png")
    split = make_split(
        "imagefolder", run_root=tmp_path / "runs", data_root=tmp_path / "pictures", val_fraction=0.0
    )
    setting = {"part": "test", "train": False, "eval_resize": resize, "interpolation": interpolation}
    if not taken:
        with pytest.raises(UsageError, match="resizes the edges of pictures in its own way"):
            loader_of(split, "dali", **setting)
        return
    (batch,), (expected,) = (
        list(loader_of(split, kind, **setting).epoch(0)) for kind in ("dali", "threaded")
    )
    one_level = 1 / 255 / min(DataRecipe().std)
    torch.testing.assert_close(batch.images, expected.images, atol=1.001 * one_level, rtol=0)


def test_the_hardware_decoder_gets_the_recipes_part_on_a_gpu_alone(split: Split) -> None:
    pytest.importorskip("nvidia.dali", reason="DALI is not installed")
    data = DataRecipe(hw_decoder_load=0.3)
    on_gpu, on_cpu = (
        decoder_settings(LoadPlan(split, data, "train", 8, 0, True, device))
        for device in (torch.device("cuda", 0), CPU)
    )
    assert (on_gpu["device"], on_gpu["hw_decoder_load"]) == ("mixed", 0.3)
    assert on_cpu["device"] == "cpu"
    assert "hw_decoder_load" not in on_cpu
    assert on_gpu["jpeg_fancy_upsampling"]


@given(height=st.integers(1, 90), width=st.integers(1, 90), size=st.integers(2, 40), more=st.integers(0, 9))
def test_the_resized_size_and_the_crop_are_torchvisions(
    height: int, width: int, size: int, more: int
) -> None:
    resize = size + more
    target, crop = compute_resize_and_crop(np.array([[height, width]], dtype=np.int32), resize, size)
    resized = vision.resize(torch.zeros(3, height, width, dtype=torch.uint8), [resize])
    assert target[0].tolist() == list(resized.shape[1:])
    # A picture whose pixels say where they are: its corner says where it was cut.
    rows, columns = torch.meshgrid(*(torch.arange(n) for n in resized.shape[1:]), indexing="ij")
    place = torch.stack([rows, columns, rows], dim=-1)
    assert resize_and_crop(place, resize, size)[0, 0, :2].tolist() == crop[0].tolist()
