"""Folding into a classifier: the logits are those that were asked for."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mptctl.errors import UsageError
from mptctl.models.heads import fold_into_head
from mptctl.models.networks import build_model
from mptctl.recipe import ModelRecipe


@pytest.mark.parametrize(
    "recipe",
    [
        {"arch": "digits-net"},
        {"arch": "resnet18", "embedding_dim": 8},
        {"arch": "mobilenet_v3_small"},
        {"arch": "digits-net", "head": "cosine"},
        {"arch": "digits-net", "head": "linear-margin"},
    ],
)
@pytest.mark.parametrize("temperature", [1.0, 1.7])
def test_the_logits_are_shifted_and_divided(recipe: dict[str, object], temperature: float) -> None:
    torch.manual_seed(0)
    model = build_model(ModelRecipe.model_validate(recipe), 6, 32).eval()
    pictures = torch.randn(5, 3, 32, 32)
    biases = torch.tensor([0.0, 0.0, 0.0, 1.25, 0.3, 7.0], dtype=torch.float64)
    with torch.no_grad():
        wanted = (model(pictures).double() - biases) / temperature
        others = {k: v.clone() for k, v in model.state_dict().items()}
        fold_into_head(model, str(recipe["arch"]), biases, temperature)
        assert torch.allclose(model(pictures).double(), wanted, rtol=1e-6, atol=1e-6)
    changed = {k for k, v in model.state_dict().items() if not torch.equal(v, others[k])}
    assert len(changed) == (1 if temperature == 1.0 else 2)


def test_nothing_is_nothing_to_the_bit() -> None:
    model = build_model(ModelRecipe(arch="digits-net"), 4, 8)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    fold_into_head(model, "digits-net", torch.zeros(4))
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())


def test_a_classifier_without_a_bias() -> None:
    model = nn.Sequential(nn.Linear(3, 2, bias=False))
    with pytest.raises(UsageError, match="no bias to fold"):
        fold_into_head(model, "own", torch.zeros(2))
