"""How much memory a training step takes, from sizes alone: no picture is read and no weight is made."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mptctl.models.networks import build_model, set_training_mode
from mptctl.recipe import Recipe


def step_bytes(
    recipe: Recipe, num_classes: int, teachers: Sequence[tuple[Recipe, int]], per_weight: int
) -> int:
    """Bytes of weights, gradients, the optimizer's state, what the backward pass needs, and the teachers' weights.

    Autocast to bfloat16 takes less for the backward pass; pictures in memory are counted by their loader.

    Args:
        recipe: of the model that is trained.
        num_classes: that it answers.
        teachers: recipe and classes of each.
        per_weight: numbers that the optimizer keeps for each trained weight.
    """
    model = _outline(recipe, num_classes)
    set_training_mode(model, recipe.model)
    weights = sum(_size(_outline(*teacher)) for teacher in teachers)
    return student_bytes(recipe, num_classes, per_weight) + _kept_bytes(model, recipe) + weights


def student_bytes(recipe: Recipe, num_classes: int, per_weight: int) -> int:
    """Bytes of weights, gradients and the optimizer's state: what a run keeps while another has its turn.

    Args:
        recipe, num_classes, per_weight: as `step_bytes`.
    """
    model = _outline(recipe, num_classes)
    set_training_mode(model, recipe.model)
    trained = sum(p.numel() * p.element_size() for p in model.parameters() if p.requires_grad)
    return _size(model) + trained * (1 + per_weight)


def _outline(recipe: Recipe, num_classes: int) -> nn.Module:
    with torch.device("meta"):
        return build_model(recipe.model, num_classes, recipe.data.image_size)


def _size(model: nn.Module) -> int:
    return sum(t.numel() * t.element_size() for t in model.state_dict().values())


def _kept_bytes(model: nn.Module, recipe: Recipe) -> int:
    """What a forward pass on a whole batch keeps for the backward pass, without the weights."""
    own = {p.untyped_storage()._cdata for p in model.parameters()}
    kept: dict[int, tuple[Tensor, int]] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage._cdata not in own:
            # The tensor is held, so that no other gets its place.
            kept[storage._cdata] = tensor, storage.nbytes()
        return tensor

    side = recipe.data.image_size
    images = torch.empty(recipe.optim.batch_size, 3, side, side, device="meta")
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        model(images)
    return sum(size for _, size in kept.values())
