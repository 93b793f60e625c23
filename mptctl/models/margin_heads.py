"""Classifiers of "Negative Margin Matters" (Liu et al., ECCV 2020): scaled cosines, scaled products."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mptctl.errors import UsageError
from mptctl.models.heads import Head, find_head
from mptctl.recipe import ModelRecipe


class ScaledHead(nn.Linear):
    """A classifier with a fixed scale s, and a bias that is not trained: 0, or what was folded in after training.

    The margin is no part of it: training takes it off the true class's logit, before the criterion.

    Args:
        in_features: numbers of an embedding.
        out_features: classes.
        scale: s.
    """

    bias: Tensor  # type: ignore[assignment]  # a buffer here, a parameter there
    scale: Tensor

    def __init__(self, in_features: int, out_features: int, scale: float) -> None:
        super().__init__(in_features, out_features, bias=False)
        del self.bias
        self.register_buffer("bias", torch.zeros(out_features))
        self.register_buffer("scale", torch.tensor(float(scale)))


class LinearMarginHead(ScaledHead):
    """s w.f + b."""

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, in_features) -> logits: (B, out_features)."""
        return self.scale * F.linear(x, self.weight) + self.bias


class CosineHead(ScaledHead):
    """s cos(w, f) + b."""

    def forward(self, x: Tensor) -> Tensor:
        """x: (B, in_features) -> logits: (B, out_features)."""
        return self.scale * F.linear(F.normalize(x), F.normalize(self.weight)) + self.bias


HEADS: dict[str, type[ScaledHead]] = {"cosine": CosineHead, "linear-margin": LinearMarginHead}


def last_linear(model: nn.Module, arch: str) -> tuple[nn.Module, str, nn.Linear]:
    """The layer that makes the logits: the module that holds it, its name there, and itself.

    Raises:
        UsageError: the network does not end in a linear layer.
    """
    name, head = find_head(model, arch)
    if isinstance(head, Head):
        classifier = head[-1]
        assert isinstance(classifier, nn.Linear)
        return head, str(len(head) - 1), classifier
    parent, _, leaf = name.rpartition(".")
    assert isinstance(head, nn.Linear)
    return model.get_submodule(parent), leaf, head


def use_scaled_head(model: nn.Module, recipe: ModelRecipe) -> None:
    """Put the recipe's head, ``cosine`` or ``linear-margin``, in place of the linear layer that makes the logits."""
    parent, leaf, linear = last_linear(model, recipe.arch)
    setattr(parent, leaf, HEADS[recipe.head](linear.in_features, linear.out_features, recipe.scale_of_head))


def directions(classifier: nn.Linear) -> Tensor:
    """(C, features) rows whose products with an embedding, with the bias added, order the classes as the logits do.

    Of a cosine head that is so where the bias is 0, as training leaves it.
    """
    return F.normalize(classifier.weight) if isinstance(classifier, CosineHead) else classifier.weight


@torch.no_grad()
def add_rows(model: nn.Module, arch: str, rows: Tensor, constant: float) -> None:
    """Give the layer that makes the logits further classes; those that it has keep their logits.

    Args:
        model: in place.
        arch: its name, for the message.
        rows: (new classes, features).
        constant: taken off the new classes' logits.

    Raises:
        UsageError: the classifier has no bias, or the network does not end in a linear layer.
    """
    linear = last_linear(model, arch)[2]
    if linear.bias is None:
        raise UsageError(f"model.arch {arch}: its classifier has no bias to take a constant off")
    weight, bias = linear.weight, linear.bias
    more = torch.full((len(rows),), -constant, dtype=bias.dtype, device=bias.device)
    linear.weight = nn.Parameter(torch.cat([weight, rows.to(weight)]), weight.requires_grad)
    longer = torch.cat([bias, more])
    # Of a scaled head it is a buffer.
    linear.bias = nn.Parameter(longer, bias.requires_grad) if isinstance(bias, nn.Parameter) else longer
    linear.out_features = len(longer)
