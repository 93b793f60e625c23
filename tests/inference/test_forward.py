"""Models and a loader in, logits out: in evaluation, in the loader's order, in one pass, without gradients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

from mptctl.data.loading.base import Loader
from mptctl.data.loading.choose import make_loader
from mptctl.data.loading.part import LoadPlan
from mptctl.data.split import load_split, make_split
from mptctl.inference.forward import forward
from mptctl.models.networks import build_model
from mptctl.recipe import load_recipe
from tests.common import CPU


@pytest.fixture
def loader(tmp_path: Path) -> Iterator[Loader]:
    split = make_split("digits", run_root=tmp_path, val_fraction=0.2)
    made = make_loader(
        LoadPlan(split, load_recipe("digits").data, "val", batch_size=50, seed=0, train=False, device=CPU)
    )
    yield made
    made.close()


@pytest.fixture
def model() -> nn.Module:
    recipe = load_recipe("digits")
    torch.manual_seed(0)
    return build_model(recipe.model, 10, recipe.data.image_size).train()


def test_every_sample_has_the_logits_of_every_model(loader: Loader, model: nn.Module, tmp_path: Path) -> None:
    assert any(isinstance(part, nn.BatchNorm2d) for part in model.modules())
    half = nn.Sequential(model, nn.Hardtanh(-0.5, 0.5))
    before = {key: value.clone() for key, value in model.state_dict().items()}
    index = []
    for batch, (one, two) in forward([model, half], loader):
        index += batch.index.tolist()
        with torch.no_grad():
            assert torch.equal(one, model(batch.images))
        assert torch.equal(two, one.clamp(-0.5, 0.5))
        assert not one.requires_grad
    assert index == load_split(tmp_path).indices("val").tolist()
    assert not model.training
    # Statistics of batch normalisation would move if the model were still training.
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())


def test_autocast_computes_in_fewer_bits_and_answers_in_float32(loader: Loader, model: nn.Module) -> None:
    (_, (full,)), *_ = forward([model], loader)
    (_, (reduced,)), *_ = forward([model], loader, "bf16")
    assert reduced.dtype == torch.float32
    assert not torch.equal(full, reduced)
    assert torch.equal(reduced, reduced.bfloat16().float())
