"""The classifier at the end of a network: finds it, replaces it, shifts its logits, adds classes to it.

Scaled cosines and scaled products are those of "Negative Margin Matters" (Liu et al., ECCV 2020).
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mptctl.errors import UsageError
from mptctl.models.timm_networks import TIMM, timm_classifier
from mptctl.recipe import ModelRecipe


class Head(nn.Sequential):
    """An embedding and a classifier: (B, features) -> (B, embedding_dim) -> (B, num_classes)."""


class ScaledHead(nn.Linear):
    """A classifier with a fixed scale s and an untrained bias, 0 until `fold_into_head` changes the bias.

    A margin is no part of the head: the criterion subtracts the margin from the true class's logit.

    Args:
        in_features: size of an embedding.
        out_features: number of classes.
        scale: s.
    """

    bias: Tensor  # type: ignore[assignment]  # a buffer here, a parameter in nn.Linear
    scale: Tensor

    def __init__(self, in_features: int, out_features: int, scale: float) -> None:
        super().__init__(in_features, out_features, bias=False)
        del self.bias
        self.register_buffer("bias", torch.zeros(out_features))
        self.register_buffer("scale", torch.tensor(float(scale)))


class LinearMarginHead(ScaledHead):
    """Logits s w.f + b of an embedding f and a class's weights w."""

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, in_features) -> logits: (B, out_features)."""
        return self.scale * F.linear(x, self.weight) + self.bias


class CosineHead(ScaledHead):
    """Logits s cos(w, f) + b of an embedding f and a class's weights w."""

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, in_features) -> logits: (B, out_features)."""
        return self.scale * F.linear(F.normalize(x), F.normalize(self.weight)) + self.bias


HEADS: dict[str, type[ScaledHead]] = {"cosine": CosineHead, "linear-margin": LinearMarginHead}


class Classifier(NamedTuple):
    """The linear layer that makes a network's logits.

    Attributes:
        name: the layer's name among the network's modules.
        layer: the layer.
    """

    name: str
    layer: nn.Linear


def find_head(model: nn.Module, arch: str) -> tuple[str, nn.Module]:
    """Find the name and module of a network's last linear layer, or of the `Head` that contains the layer.

    Raises:
        UsageError: the network does not end in a linear layer.
    """
    # In timm's networks other linear layers may follow the classifier, but timm tells which one it is.
    modules = timm_classifier(model) if arch.startswith(TIMM) else list(model.named_modules())
    linear = [(name, module) for name, module in modules if isinstance(module, nn.Linear | Head)]
    if not linear:
        raise UsageError(
            f"model.arch {arch}: does not end in a linear classifier; choose another architecture"
        )
    name, module = linear[-1]
    parent_name = name.rpartition(".")[0]
    parent = model.get_submodule(parent_name)
    return (parent_name, parent) if isinstance(parent, Head) else (name, module)


def find_classifier(model: nn.Module, arch: str) -> Classifier:
    """Find the linear layer that makes a network's logits; in a `Head` it is the last layer.

    Raises:
        UsageError: the network does not end in a linear layer.
    """
    name, head = find_head(model, arch)
    if isinstance(head, Head):
        name, head = f"{name}.{len(head) - 1}", head[-1]
    assert isinstance(head, nn.Linear)
    return Classifier(name, head)


def insert_embedding(model: nn.Module, arch: str, embedding_dim: int) -> None:
    """Replace the classifier, in place, by a `Head` of a fresh embedding and a fresh classifier.

    Raises:
        UsageError: the network does not end in a linear layer.
    """
    name, linear = find_classifier(model, arch)
    embedding = nn.Linear(linear.in_features, embedding_dim)
    model.set_submodule(name, Head(embedding, nn.Linear(embedding_dim, linear.out_features)))


def use_scaled_head(model: nn.Module, recipe: ModelRecipe) -> None:
    """Replace the classifier, in place, by a fresh `ScaledHead` of the recipe's kind.

    Raises:
        UsageError: the network does not end in a linear layer.
    """
    name, linear = find_classifier(model, recipe.arch)
    head = HEADS[recipe.head](linear.in_features, linear.out_features, recipe.scale_of_head)
    model.set_submodule(name, head)


def class_directions(classifier: nn.Linear) -> Tensor:
    """The classifier's weights, (C, features), with rows of length 1 for a cosine head.

    Products of the rows with an embedding, plus the bias, order the classes as the logits do. For a cosine
    head this is true only if the bias is 0, as after training.
    """
    return F.normalize(classifier.weight) if isinstance(classifier, CosineHead) else classifier.weight


@torch.no_grad()
def fold_into_head(model: nn.Module, arch: str, biases: Tensor, temperature: float = 1.0) -> None:
    """Change a classifier, in place, so that its logits z become (z - biases) / temperature.

    The new weights are computed in double precision and rounded once.

    Args:
        model: the network, changed in place.
        arch: its architecture's name, for the message.
        biases: (C,) one number to subtract from each logit.
        temperature: above 0.

    Raises:
        UsageError: the classifier has no bias, or the network does not end in a linear layer.
    """
    linear = find_classifier(model, arch).layer
    if linear.bias is None:
        raise UsageError(f"model.arch {arch}: its classifier has no bias to fold one into")
    linear.bias.copy_((linear.bias.double() - biases.to(linear.bias.device).double()) / temperature)
    if temperature != 1.0:
        # A scaled head's logits are its scale times a product; the length of a row does not change a cosine.
        gain = dict(linear.named_buffers()).get("scale", linear.weight)
        gain.copy_(gain.double() / temperature)
