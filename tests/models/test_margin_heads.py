"""Heads with a scale against their formulas, what training takes off, and DropBlock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from mptctl.data.split import Split
from mptctl.errors import UsageError
from mptctl.methods import build_method
from mptctl.models import layers
from mptctl.models.checkpoint import load_checkpoint, load_model
from mptctl.models.heads import CosineHead, LinearMarginHead, class_directions
from mptctl.models.layers import DropBlock
from mptctl.models.networks import build_model
from mptctl.names import METHOD_NAMES
from mptctl.recipe import ModelRecipe, Recipe, load_recipe
from mptctl.training.request import RunRequest
from tests.common import Train, assert_same_run, short_recipe, train_until_killed


def recipe(**keys: object) -> ModelRecipe:
    return ModelRecipe.model_validate(keys)


def test_a_cosine_head_is_s_times_the_cosine_in_double_precision() -> None:
    head = CosineHead(3, 2, 7.5).double()
    with torch.no_grad():
        head.weight.copy_(torch.tensor([[3.0, 4.0, 0.0], [0.0, 0.0, -2.0]]))
    # cosines by hand: with (0, 5, 0) 4/5 and 0; with (1, 2, 2) 11/15 and -2/3.
    x = torch.tensor([[0.0, 5.0, 0.0], [1.0, 2.0, 2.0]], dtype=torch.float64)
    want = 7.5 * torch.tensor([[0.8, 0.0], [11 / 15, -2 / 3]], dtype=torch.float64)
    torch.testing.assert_close(head(x), want, atol=1e-12, rtol=0)
    assert torch.autograd.gradcheck(head, x.clone().requires_grad_())
    torch.testing.assert_close(class_directions(head).norm(dim=1), torch.ones(2, dtype=torch.float64))


def test_a_linear_margin_head_is_s_times_the_product_without_a_trained_bias() -> None:
    head = LinearMarginHead(5, 3, 0.3).double()
    x = torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    want = 0.3 * x.numpy() @ head.weight.detach().numpy().T
    np.testing.assert_allclose(head(x).detach().numpy(), want, atol=1e-12)
    assert [name for name, _ in head.named_parameters()] == ["weight"]
    assert not head.bias.any()
    head.bias.fill_(-2.0)  # what is folded in after training is added to the logits as it is
    np.testing.assert_allclose(head(x).detach().numpy(), want - 2.0, atol=1e-12)
    assert torch.autograd.gradcheck(head, x.clone().requires_grad_())


@pytest.mark.parametrize(
    ("keys", "scale", "margin"),
    [
        ({}, 1.0, 0.0),
        ({"head": "cosine", "head_margin": -0.05}, 30.0, -1.5),
        ({"head": "linear-margin", "head_margin": 0.3}, 5.0, 1.5),
        ({"head": "cosine", "head_scale": 12.0, "head_margin": 0.5}, 12.0, 6.0),
    ],
)
def test_the_scale_has_the_papers_defaults(keys: dict[str, Any], scale: float, margin: float) -> None:
    assert recipe(**keys).scale_of_head == scale
    assert recipe(**keys).true_class_margin == pytest.approx(margin)


@pytest.mark.parametrize(
    ("override", "says"),
    [
        ("model.head=cosin", "did you mean cosine"),
        ("model.head_margin=-0.1", "a linear head has none"),
        ("model.head_scale=3", "a linear head has none"),
        ("model.dropblock=1.5", "model.dropblock"),
        ("model.dropblock=-0.1", "model.dropblock"),
    ],
)
def test_wrong_keys_are_named(override: str, says: str) -> None:
    with pytest.raises(UsageError, match=says):
        load_recipe("digits", [override])


def test_a_recipe_without_the_keys_is_the_linear_head_and_without_a_margin_a_method_is_itself() -> None:
    dumped = load_recipe("digits").model_dump()
    for key in ("head", "head_scale", "head_margin", "dropblock", "dropblock_size"):
        del dumped["model"][key]
    assert Recipe.model_validate(dumped) == load_recipe("digits")
    assert type(build_model(recipe(arch="digits-net"), 4, 8).get_submodule("fc")) is nn.Linear
    for method in METHOD_NAMES:
        assert type(build_method(method, num_old=4, margin=0.0)) is type(build_method(method, num_old=4))


def batch(classes: int, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 2 * torch.randn(9, classes, dtype=torch.float64, generator=generator)


def inputs() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    target = torch.tensor([0, 5, 3, 2, -100, 6, 1, 4, 0])
    return batch(7, 1), target, batch(4, 2), batch(7, 3)


@pytest.mark.parametrize("criterion", ["ce", "mbls"])
@pytest.mark.parametrize("method", METHOD_NAMES)
def test_the_criterion_sees_the_margin_and_nothing_else_does(method: str, criterion: str) -> None:
    """It is the criterion of logits of which 1.7 was taken off the true class's; distillation and counts stay."""
    logits, target, old, ref = inputs()
    settings: dict[str, Any] = {
        "num_old": 4,
        "k": 1.5,
        "elodi_start_epoch": 0,
        "criterion": {"name": criterion},
    }
    plain, other = build_method(method, **settings), build_method(method, margin=1.7, **settings)
    shifted = logits.clone()
    valid = target != -100
    shifted[valid, target[valid]] -= 1.7
    want = plain(logits, target, old, ref) | {"ce": plain(shifted, target, old, ref)["ce"]}
    got, grad = other.value_and_grad(logits, target, old, ref)
    for term in set(want) - {"loss"}:
        torch.testing.assert_close(got[term], want[term], atol=1e-12, rtol=0)
    assert got["correct"] == plain.value_and_grad(logits, target, old, ref)[0]["correct"]
    leaf = logits.clone().requires_grad_()
    other(leaf, target, old, ref)["loss"].backward()
    torch.testing.assert_close(grad, leaf.grad, atol=1e-12, rtol=0)


@pytest.mark.parametrize("head", ["cosine", "linear-margin"])
def test_a_run_trains_with_the_margin_and_its_model_answers_without(
    head: str, run: Train, digits: Split
) -> None:
    keys = (f"model.head={head}", "model.head_scale=8", "optim.epochs=1", "optim.max_steps=2")
    losses, outputs = {}, {}
    for margin in (-0.4, 0.0, 0.4):
        name = f"m{margin}"
        # A rate so small that the weights stay: only what the criterion sees differs.
        _, log = run(short_recipe(*keys, "optim.lr=1e-12", f"model.head_margin={margin}"), name=name)
        terms = [line.terms for line in log.lines if line.terms is not None]
        losses[margin] = terms[0]["ce"]
        model = load_model(load_checkpoint(Path(digits.run_root) / name / "best.pt")).eval()
        outputs[margin] = model(torch.randn(3, 3, 8, 8, generator=torch.Generator().manual_seed(2)))
    assert losses[-0.4] < losses[0.0] < losses[0.4]
    torch.testing.assert_close(outputs[-0.4], outputs[0.4], atol=1e-6, rtol=0)


def test_a_head_goes_behind_an_embedding_and_is_what_head_training_trains() -> None:
    keys = recipe(arch="digits-net", head="cosine", embedding_dim=2, train="head")
    model = build_model(keys, 4, 8)
    head = model.get_submodule("fc")
    assert isinstance(head[1], CosineHead)  # type: ignore[index]
    trained = [name for name, p in model.named_parameters() if p.requires_grad]
    assert trained == ["fc.0.weight", "fc.0.bias", "fc.1.weight"]


def test_drop_block_leaves_out_squares_in_training_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(layers, "RAMP_STEPS", 1)
    torch.manual_seed(0)
    layer, x = DropBlock(0.2, 3), torch.ones(400, 2, 7, 7)
    layers.count_drop_block_step([layer])
    assert layer.eval()(x) is x
    out = layer.train()(x)
    # The rest is scaled so that the mean stays; about a fifth is 0 (squares overlap, so a little less).
    assert out.mean().item() == pytest.approx(1.0, abs=1e-5)
    assert 0.15 < (out == 0).float().mean().item() < 0.2
    # Every 0 belongs to a 3x3 square of them inside the map.
    zero = (out == 0).float()
    whole = nn.functional.avg_pool2d(zero, 3, stride=1) > 0.999
    covered = nn.functional.max_pool2d(nn.functional.pad(whole.float(), [2] * 4), 3, stride=1)
    assert torch.equal(covered, zero)
    assert torch.autograd.gradcheck(
        lambda z: _seeded(layer, z), torch.randn(1, 2, 5, 5, dtype=torch.float64, requires_grad=True)
    )


def test_drop_block_counts_optimizer_steps_not_pieces_and_goes_on_after_a_kill(
    run: Train, digits: Split
) -> None:
    """Its random numbers go on too: those of layers are a part of what `assert_same_run` compares."""
    keys = ("model.arch=resnet18", "model.dropblock=0.5", "optim.accumulate=4", "optim.max_steps=3")
    recipe = short_recipe(*keys, "runtime.checkpoint_every_steps=1")
    whole, _ = run(recipe, "whole")
    train_until_killed(RunRequest(recipe, digits, digits.run_root / "killed"), "checkpoint", 2)
    resumed, _ = run(recipe, "killed", resume=True)
    for result in (whole, resumed):
        weights = load_checkpoint(result.run.last).model
        counts = [int(tensor) for name, tensor in weights.items() if name.endswith("drop_block.steps")]
        assert counts == [3, 3, 3, 3]
    assert_same_run(resumed.run, whole.run)


def _seeded(layer: nn.Module, x: Tensor) -> Tensor:
    torch.manual_seed(1)
    out: Tensor = layer(x)
    return out


def test_drop_block_rises_over_the_steps() -> None:
    layer = DropBlock(1.0, 1)
    x = torch.ones(100, 10, 4, 4)
    torch.manual_seed(0)
    assert (layer(x) == 0).float().mean() < 0.01
    layer.steps.fill_(layers.RAMP_STEPS // 2)
    assert (layer(x) == 0).float().mean().item() == pytest.approx(0.5, abs=0.02)


def test_a_resnet_has_drop_block_after_its_last_two_stages() -> None:
    keys = recipe(arch="resnet18", dropblock=0.1, dropblock_size=5)
    torch.manual_seed(1)
    model, plain = build_model(keys, 3, 32), build_model(recipe(arch="resnet18"), 3, 32)
    found = [name for name, module in model.named_modules() if isinstance(module, DropBlock)]
    assert found == [f"layer{stage}.{block}.drop_block" for stage in (3, 4) for block in (0, 1)]
    own = {key: tensor for key, tensor in model.state_dict().items() if "drop_block" not in key}
    plain.load_state_dict(own)
    x = torch.randn(2, 3, 32, 32)
    assert torch.equal(model.eval()(x), plain.eval()(x))
    for name in found:
        model.get_buffer(f"{name}.steps").fill_(layers.RAMP_STEPS)
    model.train(), plain.train()
    assert not torch.equal(model(x), plain(x))
    with pytest.raises(UsageError, match="for ResNets"):
        build_model(recipe(arch="digits-net", dropblock=0.1), 3, 8)
