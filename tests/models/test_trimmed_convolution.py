"""Convolutions without the weights that meet padding alone: the same sums, gradients and state."""

from itertools import product

import torch
from torch import nn

from mptctl.models.layers import (
    TrimmedConv2d,
    restore_convolutions,
    rows_that_meet,
    trim_convolutions,
)
from mptctl.models.networks import build_model
from mptctl.recipe import ModelRecipe


def test_every_small_convolution_has_the_sums_and_gradients_of_the_whole_one() -> None:
    torch.manual_seed(0)
    trimmed = 0
    for side, kernel, stride, padding in product(range(1, 6), range(1, 6), range(1, 4), range(1, 4)):
        if side + 2 * padding < kernel:
            continue
        ours = nn.Conv2d(4, 6, (kernel, 3), stride, (padding, 1), groups=2).double()
        whole = nn.Conv2d(4, 6, (kernel, 3), stride, (padding, 1), groups=2).double()
        whole.load_state_dict(ours.state_dict())
        trim_convolutions(ours)
        pictures = torch.randn(3, 4, side, 4, dtype=torch.float64, requires_grad=True)
        results = []
        for layer in (ours, whole):
            maps = layer(pictures)
            weights = torch.linspace(-1, 1, maps.numel(), dtype=torch.float64).reshape(maps.shape)
            grads = torch.autograd.grad((maps * weights).sum(), [pictures, *layer.parameters()])
            results.append([maps, *grads])
        for mine, theirs in zip(*results, strict=True):
            torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-12)
        trimmed += len(rows_that_meet(side, kernel, stride, padding)) < kernel
    assert trimmed > 10


def test_the_gradient_lies_in_memory_as_the_weights_do() -> None:
    """Otherwise torch copies all of it into another one in each step."""
    layer = nn.Conv2d(4, 6, 3, padding=1).to(memory_format=torch.channels_last)
    trim_convolutions(layer)
    strides: list[tuple[int, ...]] = []
    layer.weight.register_hook(lambda gradient: strides.append(gradient.stride()))
    layer(torch.randn(2, 4, 1, 1)).sum().backward()
    assert strides == [layer.weight.stride()]


def test_other_convolutions_and_all_state_stay() -> None:
    layers = nn.Sequential(
        nn.Conv2d(2, 2, 3, padding=1),
        nn.Conv2d(2, 2, 3),
        nn.Conv2d(2, 2, 3, padding="same"),
        nn.Conv2d(2, 2, 3, padding=1, padding_mode="reflect"),
        nn.Conv2d(2, 2, 3, padding=2, dilation=2),
    )
    before = {name: tensor.clone() for name, tensor in layers.state_dict().items()}
    trim_convolutions(layers)
    assert [type(layer) for layer in layers] == [TrimmedConv2d, *[nn.Conv2d] * 4]
    after = layers.state_dict()
    assert list(after) == list(before)
    assert all(torch.equal(after[name], before[name]) for name in before)
    restore_convolutions(layers)
    assert {type(layer) for layer in layers} == {nn.Conv2d}


def test_a_resnet_on_small_pictures_learns_as_torchvisions_own() -> None:
    from torchvision.models import resnet18

    torch.manual_seed(0)
    ours = build_model(ModelRecipe.model_validate({"arch": "resnet18"}), 7, 32)
    theirs = resnet18(num_classes=7)
    theirs.load_state_dict(ours.state_dict())
    pictures, labels = torch.randn(8, 3, 32, 32), torch.arange(8) % 7
    grads = []
    for model in (ours, theirs):
        model.double().train()
        loss = nn.functional.cross_entropy(model(pictures.double()), labels)
        grads.append(torch.autograd.grad(loss, list(model.parameters())))
    for mine, others in zip(*grads, strict=True):
        torch.testing.assert_close(mine, others, rtol=1e-9, atol=1e-12)


def test_a_traced_graph_has_the_whole_weights() -> None:
    layer = nn.Sequential(nn.Conv2d(2, 2, 3, padding=1)).eval()
    trim_convolutions(layer)
    graph = str(torch.export.export(layer, (torch.randn(2, 2, 1, 1),)).graph)
    assert "conv2d" in graph
    assert "slice" not in graph
