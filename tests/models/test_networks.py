"""Networks by name: what they answer, what is trained, frozen or folded in, and weights from elsewhere."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import torchvision
from torch import nn

from mptctl.errors import CheckpointError, UsageError
from mptctl.models.checkpoint import Checkpoint, CheckpointMeta, load_model
from mptctl.models.heads import find_head, fold_into_head
from mptctl.models.networks import build_model, build_outline, set_training_mode
from mptctl.models.state_dict import load_weights
from mptctl.recipe import ModelRecipe, load_recipe


def recipe(**keys: object) -> ModelRecipe:
    return ModelRecipe.model_validate(keys)


@pytest.mark.parametrize(
    ("keys", "size"),
    [
        ({"arch": "digits-net"}, 8),
        ({"arch": "characters-net"}, 16),
        ({"arch": "resnet18"}, 32),
        ({"arch": "resnet18", "stem": "small"}, 16),
        ({"arch": "resnet18", "embedding_dim": 2}, 32),
        ({"arch": "mobilenet_v3_small", "embedding_dim": 16}, 32),
        ({"arch": "googlenet"}, 64),
        ({"arch": "vit_b_32", "train": "head"}, 64),
    ],
)
def test_a_network_answers_one_logit_a_class(keys: dict[str, object], size: int) -> None:
    model = build_model(recipe(**keys), 7, size)
    set_training_mode(model, recipe(**keys))
    assert model(torch.randn(2, 3, size, size)).shape == (2, 7)


@pytest.mark.parametrize(
    ("keys", "module", "side"),
    [({"arch": "resnet18", "stem": "small"}, "conv1", 32), ({"arch": "characters-net"}, "stem", 16)],
)
def test_a_stem_keeps_or_halves_the_resolution(keys: dict[str, object], module: str, side: int) -> None:
    model = build_model(recipe(**keys), 3, 32)
    assert model.get_submodule(module)(torch.zeros(1, 3, 32, 32)).shape[2:] == (side, side)
    if module == "conv1":
        assert isinstance(model.get_submodule("maxpool"), nn.Identity)


def test_training_the_head_moves_nothing_else() -> None:
    keys = recipe(arch="resnet18", embedding_dim=4, train="head")
    model = build_model(keys, 3, 32)
    name, _ = find_head(model, "resnet18")
    assert {n.partition(".")[0] for n, p in model.named_parameters() if p.requires_grad} == {name}
    before = {n: b.clone() for n, b in model.named_buffers()}
    set_training_mode(model, keys)
    model(torch.randn(4, 3, 32, 32))
    assert all(torch.equal(before[n], b) for n, b in model.named_buffers())


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"arch": "resnet81"}, "did you mean resnet18"),
        ({"arch": "squeezenet1_0"}, "does not end in a linear classifier"),
        ({"arch": "mobilenet_v2", "stem": "small"}, "it is for ResNets"),
        ({"arch": "resnet10t"}, "timm:resnet10t"),
    ],
)
def test_what_cannot_be_built_is_refused(keys: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        build_model(recipe(**keys), 5, 32)


@pytest.mark.parametrize(
    ("arch", "size"),
    [("vit_h_14", 32), ("vit_b_16", 40), ("maxvit_t", 32), ("alexnet", 32), ("googlenet", 8)],
)
def test_a_size_that_a_network_does_not_take_is_refused(arch: str, size: int) -> None:
    with pytest.raises(UsageError, match=f"data.image_size {size}: {arch} takes no .*=224") as end:
        build_model(recipe(arch=arch), 3, size)
    assert "\n" not in str(end.value)
    if arch == "alexnet":
        build_model(recipe(arch=arch), 3, 224)


def test_the_smallest_size_is_taken_and_the_one_before_it_is_not() -> None:
    """Of real numbers, since the check is by shapes alone."""
    model = build_model(recipe(arch="alexnet"), 3, 63).eval()
    assert model(torch.zeros(1, 3, 63, 63)).shape == (1, 3)
    with pytest.raises(RuntimeError, match="too small"):
        model(torch.zeros(1, 3, 62, 62))


def test_the_check_of_the_size_changes_neither_the_model_nor_the_random_numbers() -> None:
    torch.manual_seed(4)
    plain = torchvision.models.resnet18(num_classes=3)
    after = torch.rand(3)
    torch.manual_seed(4)
    model = build_model(recipe(arch="resnet18"), 3, 32)
    assert torch.equal(torch.rand(3), after)
    assert model.training
    state = plain.state_dict()
    assert all(torch.equal(state[k], v) for k, v in model.state_dict().items())


def test_a_network_that_asks_for_its_version_takes_weights_that_have_lost_it() -> None:
    model = build_model(recipe(arch="mnasnet0_5"), 3, 32)
    bare = {name: torch.full_like(value, 2) for name, value in model.state_dict().items()}
    load_weights(model, bare)
    assert all((value == 2).all() for value in model.state_dict().values())


@pytest.mark.parametrize("arch", ["resnet18", "digits-net", "regnet_y_400mf"])
def test_an_outline_has_names_and_shapes_of_the_network(arch: str) -> None:
    recipe = ModelRecipe(arch=arch, embedding_dim=7)
    shapes = [
        {name: value.shape for name, value in make(recipe, 3, 64).state_dict().items()}
        for make in (build_model, build_outline)
    ]
    assert shapes[0] == shapes[1]


def test_weights_of_another_shape_are_refused_before_the_network_is_built() -> None:
    weights = build_model(ModelRecipe(arch="digits-net"), 3, 8).state_dict()
    recipe = load_recipe("digits", ("model.embedding_dim=1000000000000",), {"model.arch": "digits-net"})
    meta = CheckpointMeta(recipe=recipe, class_names=("a", "b", "c"), num_old=2)
    with pytest.raises(CheckpointError, match=r"^x.pt: weights do not fit digits-net: fc"):
        load_model(Checkpoint(Path("x.pt"), meta, weights, None, ""))


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
    with pytest.raises(UsageError, match="no bias to fold"):
        fold_into_head(nn.Sequential(nn.Linear(3, 2, bias=False)), "own", torch.zeros(2))
