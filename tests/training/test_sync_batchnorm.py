"""Batch normalisation over several workers: torch's own on GPUs, refused on CPUs."""

from __future__ import annotations

import pytest
import torch
from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

from mptctl.models.networks import build_model
from mptctl.recipe import ModelRecipe
from mptctl.training.sync_batchnorm import convert_sync_batchnorm


@pytest.mark.parametrize("arch", ["resnet18", "timm:efficientnet_b0"])
def test_on_gpus_it_is_torchs_own_layer(arch: str) -> None:
    """It needs several GPUs to compute in training; its type and names are seen without one."""
    if arch.startswith("timm:"):
        pytest.importorskip("timm")
    model = build_model(ModelRecipe(arch=arch), 10, 32).eval()
    x, before = torch.randn(2, 3, 32, 32), list(model.state_dict())
    answers = model(x)
    model = convert_sync_batchnorm(model)
    norms = [module for module in model.modules() if isinstance(module, _BatchNorm)]
    assert norms
    assert all(isinstance(norm, nn.SyncBatchNorm) for norm in norms)
    assert list(model.state_dict()) == before
    assert torch.equal(model(x), answers)
