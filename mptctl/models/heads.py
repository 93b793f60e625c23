"""The classifier at the end of a network: finding it, and putting an embedding before it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mptctl.errors import UsageError
from mptctl.models.timm_networks import TIMM, timm_classifier


def find_head(model: nn.Module, arch: str) -> tuple[str, nn.Module]:
    """Name and module of the classifier: the last linear layer, or the embedding and it together.

    Raises:
        UsageError: the network does not end in a linear layer.
    """
    linear: list[tuple[str, nn.Module]]
    linear = [(name, module) for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    if arch.startswith(TIMM):  # which know their classifier; after it may stand layers that are none
        found = timm_classifier(model)
        linear = [(name, each) for name, each in found if isinstance(each, nn.Linear | Head)]
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


def insert_embedding(model: nn.Module, arch: str, embedding_dim: int) -> None:
    name, linear = find_head(model, arch)
    assert isinstance(linear, nn.Linear)
    parent, _, leaf = name.rpartition(".")
    head = Head(nn.Linear(linear.in_features, embedding_dim), nn.Linear(embedding_dim, linear.out_features))
    setattr(model.get_submodule(parent), leaf, head)


@torch.no_grad()
def fold_into_head(model: nn.Module, arch: str, biases: Tensor, temperature: float = 1.0) -> None:
    """Change a classifier so that its logits z become (z - biases) / temperature; nothing else is changed.

    Computed in double precision and rounded once.

    Args:
        model: in place.
        arch: its name, for the message.
        biases: (C,) what is taken off each logit.
        temperature: above 0.

    Raises:
        UsageError: the classifier has no bias, or the network does not end in a linear layer.
    """
    linear = _classifier(find_head(model, arch)[1])
    if linear.bias is None:
        raise UsageError(f"model.arch {arch}: its classifier has no bias to fold one into")
    linear.bias.copy_((linear.bias.double() - biases.to(linear.bias.device).double()) / temperature)
    if temperature != 1.0:
        # A scaled head's logits are its scale times what, of cosines, the length of a row does not change.
        gain = dict(linear.named_buffers()).get("scale", linear.weight)
        gain.copy_(gain.double() / temperature)


def _classifier(head: nn.Module) -> nn.Linear:
    """The linear layer that makes the logits."""
    last = head[-1] if isinstance(head, Head) else head
    assert isinstance(last, nn.Linear)
    return last
