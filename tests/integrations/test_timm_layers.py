"""Layers, rates and decays of fine-tuning against timm's own, and drop path where its networks have it."""

from __future__ import annotations

import pytest
import torch

from mptctl.errors import UsageError
from mptctl.models.networks import build_model
from mptctl.recipe import ModelRecipe, OptimRecipe
from mptctl.training.optimizer.parameter_groups import layer_numbers, parameter_groups

timm = pytest.importorskip("timm", reason="timm is not installed (make test-integrations)")
optim = pytest.importorskip("timm.optim", reason="timm is not installed (make test-integrations)")

# Three families whose layers timm finds in three ways; the last one alone has weights without decay of its own.
NETS = {"resnet18": 32, "convnext_atto": 32, "vit_tiny_patch16_224": 32}
KEYS = {"name": "adamw", "lr": 1e-3, "weight_decay": 0.05, "no_decay": True, "layer_decay": 0.75}


def network(**keys: object) -> torch.nn.Module:
    with torch.device("meta"):
        return build_model(ModelRecipe.model_validate(keys), 7, 32)


@pytest.mark.parametrize("name", NETS)
@pytest.mark.parametrize("freeze", [(), ("*.bias",)])
def test_rates_and_decays_of_every_weight_are_timms(name: str, freeze: tuple[str, ...]) -> None:
    model = network(arch=f"timm:{name}", freeze=freeze)
    names = {id(weight): key for key, weight in model.named_parameters()}

    def by_weight(groups: list[dict[str, object]]) -> dict[str, tuple[object, object]]:
        return {
            names[id(weight)]: (group["lr_scale"], group["weight_decay"])
            for group in groups
            for weight in group["params"]  # type: ignore[attr-defined]
        }

    skipped = getattr(model, "no_weight_decay", set)()
    theirs = optim.param_groups_layer_decay(model, 0.05, skipped, layer_decay=0.75)
    ours = by_weight(parameter_groups(OptimRecipe.model_validate(KEYS), model, f"timm:{name}"))
    assert ours == by_weight(theirs)
    assert len(ours) == sum(weight.requires_grad for weight in model.parameters())
    assert len({factor for factor, _ in ours.values()}) > 5


def test_torchvisions_resnet_has_the_layers_of_timms() -> None:
    ours, theirs = network(arch="resnet18"), network(arch="timm:resnet18")
    assert layer_numbers(ours, "resnet18") == layer_numbers(theirs, "timm:resnet18")


def test_drop_path_reaches_timms_networks_and_is_refused_where_they_have_none() -> None:
    model = network(arch="timm:convnext_atto", drop_path=0.2)
    rates = [module.drop_prob for module in model.modules() if type(module).__name__ == "DropPath"]
    assert max(rates) == pytest.approx(0.2)
    with pytest.raises(UsageError, match=r"model.drop_path: timm:vgg11 has no residual blocks"):
        network(arch="timm:vgg11", drop_path=0.2)
