"""Sorts weights into groups of one learning rate factor and one weight decay, for the optimizer."""

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

# Name patterns of weights that have no decay though they have more than one dimension. timm's networks name
# theirs themselves.
WITHOUT_DECAY = ("*class_token", "*pos_embedding", "*relative_position_bias_table", "*layer_scale")


class Layers(NamedTuple):
    """Regular expressions that give a weight's layer by its name.

    A weight whose name none of them matches belongs to the classifier.

    Attributes:
        stem: matches weights of the first layer.
        block: matches weights of the blocks after it; the numbers in its groups order the blocks.
        end: matches weights behind the last block, which count as part of it; the default matches none.
    """

    stem: str
    block: str
    end: str = r"(?!)"


IN_STAGES = Layers(r"features\.0\.", r"features\.(?:([1357])\.(\d+)|([246]))\.")
# By the name of the network's class. Layers are those that timm gives its networks of the same name.
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
    """Sort the trained weights of a model into groups of one weight decay and one learning rate factor.

    Args:
        recipe: gives weight decay, decay of the rate by layer, and rate of the classifier.
        model: the network.
        arch: the network's name.

    Returns:
        The trained weights themselves if all are treated alike. Else groups as torch's optimizers take them,
        with the learning rate factor as `lr_scale`.

    Raises:
        UsageError: ``optim.layer_decay`` is set, and the order of the network's layers is not known.
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
        is_exempt = weight.ndim <= 1 or any(fnmatchcase(name, pattern) for pattern in patterns)
        decay = 0.0 if recipe.no_decay and is_exempt else recipe.weight_decay
        groups.setdefault((factors.get(name, 1.0), decay), []).append(weight)
    return [
        {"params": weights, "lr_scale": factor, "weight_decay": decay}
        for (factor, decay), weights in groups.items()
    ]


def _learning_rate_factors(recipe: OptimRecipe, model: nn.Module, arch: str) -> dict[str, float]:
    """Compute the learning rate factors of weights by name; a weight that is left out has factor 1."""
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
    """Number the layer of each weight, by the weight's name: from 0 nearest the picture to the classifier.

    Raises:
        UsageError: the order of the network's layers is not known.
    """
    if arch.startswith(TIMM):
        numbers = timm_layers(model)
    else:
        layers = LAYERS.get(type(model).__name__)
        numbers = {} if layers is None else _number_by_patterns(list(_weights(model)), layers)
    if len(set(numbers.values())) < 2:
        raise UsageError(
            f"optim.layer_decay: the order of the layers of {arch} is not known; it is of ResNet, ConvNeXt, "
            f"Swin and ViT and of {TIMM}NAME; choose one of these, or set optim.layer_decay to null"
        )
    return numbers


def _number_by_patterns(names: list[str], layers: Layers) -> dict[str, int]:
    """Number the layer of each weight by the patterns that its name matches."""
    # Tuples that sort in the order of the layers: stem (0,), blocks (1, stage, block), classifier (2,).
    classifier = (2,)
    positions: dict[str, tuple[int, ...]] = {}
    for name in names:
        if re.match(layers.stem, name):
            positions[name] = (0,)
        elif block := re.match(layers.block, name):
            positions[name] = (1, *(int(number) for number in block.groups() if number is not None))
    last_block = max(positions.values())
    positions |= {name: last_block for name in names if re.match(layers.end, name)}
    order = sorted({*positions.values(), classifier})
    return {name: order.index(positions.get(name, classifier)) for name in names}


def _weights(model: nn.Module) -> dict[str, Tensor]:
    return dict(model.named_parameters())
