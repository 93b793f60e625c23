"""Groups of weights that the optimizer treats alike: by layer, by classifier, and with or without decay."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Any, NamedTuple

from torch import Tensor, nn

from mptctl.errors import UsageError
from mptctl.models.heads import find_head
from mptctl.models.timm_networks import TIMM, timm_layers
from mptctl.recipe import OptimRecipe

# Weights of more than one dimension that have no decay, by pattern; timm's networks name their own.
WITHOUT_DECAY = ("*class_token", "*pos_embedding", "*relative_position_bias_table", "*layer_scale")


class Layers(NamedTuple):
    """The layers of a network by the names of its weights; whatever is left is of the classifier's layer.

    Attributes:
        stem: pattern of the first layer.
        block: pattern of the others; its numbers are their order.
        end: pattern of what stands behind the last block, and is of its layer.
    """

    stem: str
    block: str
    end: str = r"(?!)"


IN_STAGES = Layers(r"features\.0\.", r"features\.(?:([1357])\.(\d+)|([246]))\.")
# By class; the blocks are those of timm's networks of the same name.
LAYERS = {
    "ConvNeXt": IN_STAGES,
    "ResNet": Layers(r"(?:conv1|bn1)\.", r"layer(\d+)\.(\d+)\."),
    "SmallResNet": Layers(r"stem\.", r"stages\.(\d+)\."),
    "SwinTransformer": IN_STAGES._replace(end=r"norm\."),
    "VisionTransformer": Layers(
        r"class_token|conv_proj\.|encoder\.pos_embedding",
        r"encoder\.layers\.encoder_layer_(\d+)\.",
        r"encoder\.ln\.",
    ),
}


def parameter_groups(recipe: OptimRecipe, model: nn.Module, arch: str) -> list[Any]:
    """Sort what a model trains into groups of one decay and one factor of the learning rate.

    Args:
        recipe: decay, and rates by layer and of the classifier.
        model: the network.
        arch: its name.

    Returns:
        The weights themselves where all are treated alike, or else groups as torch's optimizers take them,
        with `lr_scale`, the factor.

    Raises:
        UsageError: the recipe has a rate for each layer, and the order of the network's layers is not known.
    """
    trained = {name: p for name, p in model.named_parameters() if p.requires_grad}
    if not recipe.no_decay and recipe.layer_decay is None and recipe.head_lr is None:
        return list(trained.values())
    factors = _learning_rate_factors(recipe, model, arch)
    patterns: Iterable[str] = (
        getattr(model, "no_weight_decay", set)() if arch.startswith(TIMM) else WITHOUT_DECAY
    )
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, weight in trained.items():
        exempt = recipe.no_decay and (weight.ndim <= 1 or any(fnmatchcase(name, each) for each in patterns))
        decay = 0.0 if exempt else recipe.weight_decay
        groups.setdefault((factors.get(name, 1.0), decay), []).append(weight)
    return [
        {"params": weights, "lr_scale": factor, "weight_decay": decay}
        for (factor, decay), weights in groups.items()
    ]


def _learning_rate_factors(recipe: OptimRecipe, model: nn.Module, arch: str) -> dict[str, float]:
    """The factor of each weight whose learning rate may be another one than the recipe's."""
    factors: dict[str, float] = {}
    if recipe.layer_decay is not None:
        layers = layer_numbers(model, arch)
        last = max(layers.values())
        factors = {name: recipe.layer_decay ** (last - number) for name, number in layers.items()}
    if recipe.head_lr is not None:
        head = find_head(model, arch)[0]
        factors |= {name: recipe.head_lr / recipe.lr for name in _weights(model) if name.startswith(head)}
    return factors


def layer_numbers(model: nn.Module, arch: str) -> dict[str, int]:
    """The layer of each weight, counted from the picture on; the classifier is the last one.

    Raises:
        UsageError: the order of the network's layers is not known.
    """
    if arch.startswith(TIMM):
        numbers = timm_layers(model)
    else:
        layers = LAYERS.get(type(model).__name__)
        numbers = {} if layers is None else _numbered(list(_weights(model)), layers)
    if len(set(numbers.values())) < 2:
        raise UsageError(
            f"optim.layer_decay: the order of the layers of {arch} is not known; it is of ResNet, ConvNeXt, "
            f"Swin and ViT and of {TIMM}NAME; choose one of these, or set optim.layer_decay to null"
        )
    return numbers


def _numbered(names: list[str], layers: Layers) -> dict[str, int]:
    places: dict[str, tuple[int, ...]] = {}
    for name in names:
        if re.match(layers.stem, name):
            places[name] = (0,)
        elif block := re.match(layers.block, name):
            places[name] = (1, *(int(number) for number in block.groups() if number is not None))
    last = max(places.values())
    places |= {name: last for name in names if re.match(layers.end, name)}
    order = sorted({*places.values(), (2,)})
    return {name: order.index(places.get(name, (2,))) for name in names}


def _weights(model: nn.Module) -> dict[str, Tensor]:
    return dict(model.named_parameters())
