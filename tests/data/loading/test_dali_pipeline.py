"""The shape of pipeline that a plan gets, and that it is told all that it asks for."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from mptctl.data.loading.dali_pipeline import (
    CentreCrops,
    CentreCropsWithEdges,
    Geometry,
    StoredCrops,
    choose_geometry,
    decoder_settings,
)
from mptctl.data.loading.part import LoadPlan
from mptctl.data.split import Split
from mptctl.names import Part
from mptctl.recipe import DataRecipe
from tests.common import CPU


@pytest.mark.parametrize(
    ("part", "setting", "shape", "window"),
    [
        ("train", {"augment": "random-resized-crop"}, StoredCrops, False),
        ("test", {"augment": "random-resized-crop"}, CentreCropsWithEdges, False),
        ("train", {}, CentreCropsWithEdges, True),
        ("train", {"augment": "none"}, CentreCropsWithEdges, False),
        ("train", {"image_size": 150}, CentreCrops, True),  # no picture is made smaller
        ("test", {"eval_resize": 36}, CentreCrops, False),  # edges are cropped away
    ],
)
def test_every_shape_is_told_what_it_asks_for(
    split: Split, part: Part, setting: dict[str, object], shape: type[Geometry], window: bool
) -> None:
    data = DataRecipe.model_validate({"image_size": 32, **setting})
    plan = LoadPlan(split, data, part, 8, 0, part == "train", CPU)
    found = choose_geometry(plan)
    assert type(found) is shape
    assert ("window" in found.names) == window
    job = next(plan.jobs(0))
    inputs = found.inputs(job)
    assert {"file", *inputs} == set(found.names)
    assert all(len(values) == len(job.index) for values in inputs.values())
    assert np.asarray(inputs["flip"]).any() == (part == "train")


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
