"""Heads, stems and names of weights that another program saved."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torchvision
from torch import nn

from mptctl.errors import CheckpointError
from mptctl.models.checkpoint import Checkpoint, CheckpointMeta, load_model
from mptctl.models.importing import read_foreign_model
from mptctl.models.state_dict import read_state_dict
from mptctl.names import Channels
from mptctl.recipe import load_recipe

Change = Callable[[torchvision.models.ResNet], nn.Module | None]


def production(change: Change, classes: int = 3) -> nn.Module:
    """A ResNet-18 as somebody changed it, in evaluation mode."""
    torch.manual_seed(2)
    model = torchvision.models.resnet18(num_classes=classes)
    return (change(model) or model).eval()


def taken(
    model: nn.Module, folder: Path, said: list[str] | None = None, channels: Channels = "rgb"
) -> nn.Module:
    """The model that `import` makes of it, by the preset for folders of pictures, which has an embedding."""
    torch.save(model.state_dict(), folder / "weights.pt")
    names, named = (
        ("a", "b", "c"),
        load_recipe("imagenet", ("data.image_size=32",), {"model.arch": "resnet18"}),
    )
    recipe, weights, notes = read_foreign_model(folder / "weights.pt", names, named, channels)
    if said is not None:
        said += notes
    meta = CheckpointMeta(recipe=recipe, class_names=names, num_old=3)
    return load_model(Checkpoint(folder / "weights.pt", meta, weights, None, "")).eval()


class Wrapped(nn.Module):
    def __init__(self, net: nn.Module) -> None:
        super().__init__()
        self.net = net

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.net(images)
        return logits


def headed(*layers: nn.Module) -> Change:
    """The change that puts these in the place of the head."""
    return lambda model: setattr(model, "fc", nn.Sequential(*layers))


def with_criterion(model: torchvision.models.ResNet) -> nn.Module:
    """A module of Lightning whose criterion has weights."""
    module = Wrapped(model)
    module.criterion = nn.PReLU()
    return module


def without_counts(model: torchvision.models.ResNet) -> None:
    """Drop ``num_batches_tracked``, as some programs do."""
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.num_batches_tracked = None


def small_stem(model: torchvision.models.ResNet) -> None:
    model.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    model.maxpool = nn.Identity()


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (lambda model: None, "model.embedding_dim=null"),
        (headed(nn.Dropout(0.5), nn.Linear(512, 3)), "model.embedding_dim=null"),
        (headed(nn.Linear(512, 3)), "model.embedding_dim=null"),
        (headed(nn.Linear(512, 3, bias=False)), "model.embedding_dim=null"),
        (lambda model: setattr(model, "fc", nn.Linear(512, 3, bias=False)), "model.embedding_dim=null"),
        (without_counts, "model.embedding_dim=null"),
        (headed(nn.Linear(512, 6), nn.Linear(6, 3)), "model.embedding_dim=6"),
        (small_stem, 'model.stem="small" model.embedding_dim=null'),
        (Wrapped, "model.embedding_dim=null"),
    ],
)
def test_head_stem_and_names_are_those_of_the_weights(change: Change, line: str, tmp_path: Path) -> None:
    model, said = production(change), []
    mine = taken(model, tmp_path, said)
    assert said == [f"as the weights have it: {line}"]
    images = torch.randn(4, 3, 32, 32)
    with torch.no_grad():
        torch.testing.assert_close(mine(images), model(images), rtol=1e-4, atol=1e-5)


def test_a_model_that_takes_bgr_answers_as_before_to_rgb(tmp_path: Path) -> None:
    model = production(lambda model: None)
    images = torch.randn(4, 3, 32, 32)
    with torch.no_grad():
        mine = taken(model, tmp_path, channels="bgr")(images)
        torch.testing.assert_close(mine, model(images.flip(1)), rtol=1e-4, atol=1e-5)
        assert not torch.allclose(mine, model(images), atol=1e-2), "the case shows nothing"


def test_no_tensor_takes_the_place_of_another_when_a_prefix_is_cut_off(tmp_path: Path) -> None:
    model = Wrapped(production(headed(nn.Dropout(0.5), nn.Linear(512, 3))))
    model.fc = nn.Sequential(nn.Dropout(0.5), nn.Linear(512, 3))
    with pytest.raises(CheckpointError, match=r"fc\.1\.weight"):
        taken(model, tmp_path)


def test_a_checkpoint_of_timms_training_is_taken_with_its_arguments(tmp_path: Path) -> None:
    """`timm.utils.CheckpointSaver` keeps the arguments of the command line beside the weights."""
    state = {"conv1.weight": torch.ones(2)}
    content = {"epoch": 3, "arch": "resnet18", "state_dict": state, "args": argparse.Namespace(lr=0.1)}
    torch.save(content, tmp_path / "last.pth.tar")
    assert read_state_dict(tmp_path / "last.pth.tar").keys() == state.keys()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            headed(nn.Linear(512, 6), nn.ReLU(), nn.Linear(6, 3)),
            "fits --arch resnet18 but for its head: has fc.0.weight, fc.0.bias, fc.2.weight and 1 more",
        ),
        (with_criterion, "fits --arch resnet18, but holds criterion.weight too"),
        (headed(), "fits --arch resnet18 but for its head: has no fc.weight, fc.bias"),
        (
            lambda model: torchvision.models.resnet18(num_classes=4),
            "answers 4 classes, --class-names names 3",
        ),
        (lambda model: torchvision.models.resnet34(num_classes=3), "does not fit --arch resnet18"),
    ],
)
def test_weights_that_do_not_fit_say_where(change: Change, message: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=message) as end:
        taken(production(change), tmp_path)
    assert "\n" not in str(end.value)
