"""Networks: torchvision's classifiers by name, and small residual nets for the embedded sources."""

from __future__ import annotations

import difflib
import os
from itertools import pairwise
from pathlib import Path

import torch
import torchvision
from torch import Tensor, nn

from mptctl.checkpoint import read_state_dict
from mptctl.errors import CheckpointError, UsageError
from mptctl.recipe import ModelRecipe

# Channels of the stages and stride of the first convolution of the small nets, by name.
SMALL_NETS = {"digits-net": ((16, 32, 64), 1), "characters-net": ((16, 32, 64), 2)}


class ResidualBlock(nn.Module):
    """Two 3x3 convolutions with batch normalisation and a shortcut.

    Args:
        inputs: channels in.
        outputs: channels out.
        stride: of the first convolution and of the shortcut.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.shortcut: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.shortcut = nn.Sequential(
                nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs)
            )

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, inputs, H, W) -> (B, outputs, H / stride, W / stride)."""
        h = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(h)) + self.shortcut(x))


class SmallResNet(nn.Module):
    """A residual net for pictures of 8 to 16 pixels: a convolution, one block a stage, and the mean over places.

    Args:
        num_classes: width of the classifier.
        channels: of each stage; every stage but the first halves the picture.
        stride: of the first convolution.
    """

    def __init__(self, num_classes: int, channels: tuple[int, ...], stride: int) -> None:
        super().__init__()
        first = channels[0]
        self.stem = nn.Sequential(
            nn.Conv2d(3, first, 3, stride, 1, bias=False), nn.BatchNorm2d(first), nn.ReLU()
        )
        self.stages = nn.Sequential(
            ResidualBlock(first, first, 1),
            *(ResidualBlock(inputs, outputs, 2) for inputs, outputs in pairwise(channels)),
        )
        self.fc = nn.Linear(channels[-1], num_classes)

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, 3, H, W) -> logits: (B, num_classes)."""
        features: Tensor = self.stages(self.stem(x)).mean(dim=(2, 3))
        logits: Tensor = self.fc(features)
        return logits


def build_model(recipe: ModelRecipe, num_classes: int, image_size: int) -> nn.Module:
    """Make the network of a recipe with fresh or pretrained weights.

    Args:
        recipe: architecture, stem, embedding, pretrained weights, and what is trained.
        num_classes: width of the classifier.
        image_size: side of the pictures, which vision transformers need to know.

    Returns:
        A module from (B, 3, image_size, image_size) to logits (B, num_classes). With ``train: head``, only the
        classifier's parameters require a gradient.

    Raises:
        UsageError: an unknown architecture, or one that has no linear classifier or no such stem.
        CheckpointError: pretrained weights that do not fit.
    """
    model = _architecture(recipe.arch, num_classes, image_size)
    if recipe.stem == "small":
        _use_small_stem(model, recipe.arch)
    if recipe.embedding_dim is not None:
        _insert_embedding(model, recipe.arch, recipe.embedding_dim)
    if recipe.pretrained is not None:
        _load_pretrained(model, recipe)
    if recipe.train == "head":
        head = {id(p) for p in find_head(model, recipe.arch)[1].parameters()}
        for parameter in model.parameters():
            parameter.requires_grad_(id(parameter) in head)
    return model


def set_training_mode(model: nn.Module, recipe: ModelRecipe) -> None:
    """Put a model into training mode; a frozen body keeps the statistics that it came with."""
    model.train(recipe.train == "all")
    if recipe.train == "head":
        find_head(model, recipe.arch)[1].train()


def find_head(model: nn.Module, arch: str) -> tuple[str, nn.Module]:
    """Name and module of the classifier: the last linear layer, or the embedding and it together.

    Raises:
        UsageError: the network does not end in a linear layer.
    """
    linear = [(name, module) for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise UsageError(
            f"model.arch {arch}: does not end in a linear classifier; choose another architecture"
        )
    name, module = linear[-1]
    parent = name.rpartition(".")[0]
    if parent and isinstance(model.get_submodule(parent), Head):
        return parent, model.get_submodule(parent)
    return name, module


class Head(nn.Sequential):
    """An embedding and a classifier: (B, features) -> (B, embedding_dim) -> (B, num_classes)."""


def _architecture(arch: str, num_classes: int, image_size: int) -> nn.Module:
    if arch in SMALL_NETS:
        return SmallResNet(num_classes, *SMALL_NETS[arch])
    names = torchvision.models.list_models(module=torchvision.models)
    if arch not in names:
        close = difflib.get_close_matches(arch, [*names, *SMALL_NETS], n=1)
        hint = f"did you mean {close[0]}?" if close else "use a classifier of torchvision, such as resnet18"
        raise UsageError(f"model.arch {arch}: unknown; {hint}")
    settings: dict[str, object] = {"weights": None, "num_classes": num_classes}
    if arch.startswith("vit_"):
        settings["image_size"] = image_size
    if arch in ("googlenet", "inception_v3"):  # their auxiliary classifiers would return more than logits
        settings |= {"aux_logits": False, "init_weights": True}
    try:
        model: nn.Module = torchvision.models.get_model(arch, **settings)
    except ValueError as error:
        raise UsageError(f"model.arch {arch}: {' '.join(str(error).split())}") from error
    find_head(model, arch)
    return model


def _use_small_stem(model: nn.Module, arch: str) -> None:
    if not isinstance(model, torchvision.models.ResNet):
        raise UsageError(f"model.stem small: {arch} has no such stem; it is for ResNets")
    model.conv1 = nn.Conv2d(3, 64, 3, 1, 1, bias=False)
    nn.init.kaiming_normal_(model.conv1.weight, mode="fan_out", nonlinearity="relu")
    model.maxpool = nn.Identity()


def _insert_embedding(model: nn.Module, arch: str, embedding_dim: int) -> None:
    name, linear = find_head(model, arch)
    assert isinstance(linear, nn.Linear)
    parent, _, leaf = name.rpartition(".")
    head = Head(nn.Linear(linear.in_features, embedding_dim), nn.Linear(embedding_dim, linear.out_features))
    setattr(model.get_submodule(parent), leaf, head)


def _load_pretrained(model: nn.Module, recipe: ModelRecipe) -> None:
    assert recipe.pretrained is not None
    if recipe.pretrained == "torchvision":
        state = _torchvision_weights(recipe.arch)
        where = f"torchvision's weights of {recipe.arch}"
    else:
        state = read_state_dict(Path(recipe.pretrained).expanduser())
        where = recipe.pretrained
    head = find_head(model, recipe.arch)[0]
    own = model.state_dict()
    body = {k: v for k, v in state.items() if k in own and v.shape == own[k].shape}
    # The classifier may have other classes; everything else must fit.
    missing = [k for k in own if k not in body and not k.startswith(head)]
    if missing:
        raise CheckpointError(
            f"{where}: does not fit model.arch {recipe.arch}: {missing[0]} and {len(missing) - 1} more are missing "
            "or of another shape; name the architecture that the file was made with"
        )
    model.load_state_dict(body, strict=False)


def _torchvision_weights(arch: str) -> dict[str, Tensor]:
    weights = torchvision.models.get_model_weights(arch)
    chosen = weights.DEFAULT if hasattr(weights, "DEFAULT") else None
    if chosen is None:
        raise UsageError(f"model.pretrained torchvision: there are no weights for {arch}")
    path = Path(torch.hub.get_dir()) / "checkpoints" / os.path.basename(chosen.url)
    if not path.is_file():
        raise UsageError(
            f"model.pretrained torchvision: {path} is not there and nothing is downloaded in training; "
            f"fetch {chosen.url} into that folder, or name a local file"
        )
    return read_state_dict(path)
