"""Groups of weights: rates by layer and of the classifier, weights without decay, and what is refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mptctl.errors import UsageError
from mptctl.models.networks import build_model
from mptctl.recipe import ModelRecipe, OptimRecipe
from mptctl.training.optimizer.optim import build_optimizer, set_learning_rate
from mptctl.training.optimizer.parameter_groups import layer_numbers


def recipe(**keys: object) -> OptimRecipe:
    return OptimRecipe.model_validate(keys)


def network(arch: str, size: int) -> nn.Module:
    with torch.device("meta"):
        return build_model(ModelRecipe.model_validate({"arch": arch}), 3, size)


def layers(arch: str, size: int) -> list[set[str]]:
    """The modules of each layer, as far as tells them apart."""
    numbers = layer_numbers(network(arch, size), arch)
    found: list[set[str]] = [set() for _ in range(max(numbers.values()) + 1)]
    for name, number in numbers.items():
        found[number].add(name.rpartition(".")[0])
    return found


def test_each_block_is_a_layer_behind_the_stem_and_the_classifier_is_the_last() -> None:
    digits = layers("digits-net", 8)
    assert len(digits) == 5
    assert digits[0] == {"stem.0", "stem.1"}
    assert {name.rpartition(".")[0] for name in digits[2] if "shortcut" not in name} == {"stages.1"}
    assert digits[4] == {"fc"}
    resnet = layers("resnet18", 32)
    assert [len(resnet), resnet[0], resnet[9]] == [10, {"conv1", "bn1"}, {"fc"}]
    assert {"layer4.1.conv2", "layer4.1.bn1"} < resnet[8]
    vit = layers("vit_b_32", 32)
    assert [len(vit), vit[13]] == [14, {"heads.head"}]
    assert vit[0] == {"", "conv_proj", "encoder"}
    assert "encoder.ln" in vit[12]
    convnext = layers("convnext_tiny", 32)
    assert [len(convnext), convnext[0]] == [1 + 18 + 3 + 1, {"features.0.0", "features.0.1"}]
    assert [convnext[4], convnext[22]] == [{"features.2.0", "features.2.1"}, {"classifier.0", "classifier.2"}]
    swin = layers("swin_t", 32)
    assert len(swin) == 1 + 12 + 3 + 1
    assert ["norm" in swin[15], swin[16]] == [True, {"head"}]


def test_rates_fall_from_the_classifier_to_the_stem_and_move_with_the_schedule() -> None:
    model = build_model(ModelRecipe.model_validate({"arch": "digits-net"}), 3, 8)
    keys = recipe(name="adamw", lr=0.2, layer_decay=0.5, head_lr=1.0, no_decay=True, weight_decay=0.1)
    optimizer = build_optimizer(keys, model, "digits-net")
    set_learning_rate(optimizer, 0.1)  # half of its height
    names = {id(weight): name for name, weight in model.named_parameters()}
    found = {
        names[id(weight)]: (group["lr"], group["weight_decay"])
        for group in optimizer.param_groups
        for weight in group["params"]
    }
    assert len(found) == len(names)
    assert found["fc.weight"] == pytest.approx((0.5, 0.1))
    assert found["fc.bias"] == pytest.approx((0.5, 0.0))
    assert found["stages.2.conv1.weight"] == pytest.approx((0.05, 0.1))
    assert found["stages.2.bn1.weight"] == pytest.approx((0.05, 0.0))
    assert found["stem.0.weight"] == pytest.approx((0.1 / 16, 0.1))
    # Without a rate of its own the classifier has that of the last layer.
    plain = build_optimizer(recipe(lr=0.2, layer_decay=0.5), model, "digits-net")
    assert {group["lr_scale"] for group in plain.param_groups} == {1, 1 / 2, 1 / 4, 1 / 8, 1 / 16}
    # A step goes as far as its group says.
    before = model.get_parameter("fc.weight").detach().clone()
    for weight in model.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    # AdamW: the sign of the gradient and the decay, both times the rate.
    torch.testing.assert_close(model.get_parameter("fc.weight").detach(), before * (1 - 0.5 * 0.1) - 0.5)


def test_without_these_keys_the_optimizer_has_one_group_and_no_factor() -> None:
    model = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2))
    model[0].weight.requires_grad_(False)
    (group,) = build_optimizer(recipe(), model, "").param_groups
    assert [id(weight) for weight in group["params"]] == [
        id(p) for p in model.parameters() if p.requires_grad
    ]
    assert "lr_scale" not in group


@pytest.mark.parametrize("arch", ["mobilenet_v3_small", "vgg11"])
def test_a_network_whose_layers_have_no_known_order_is_refused(arch: str) -> None:
    with pytest.raises(
        UsageError, match=f"optim.layer_decay: the order of the layers of {arch} is not known"
    ):
        layer_numbers(network(arch, 32), arch)
