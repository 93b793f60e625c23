"""Builds the optimizer, sets its learning rate, and steps through channels-last weights on a CPU."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn

from mptctl.recipe import OptimRecipe
from mptctl.training.optimizer.parameter_groups import parameter_groups


def build_optimizer(recipe: OptimRecipe, model: nn.Module, arch: str) -> torch.optim.Optimizer:
    """Make the optimizer of a model's trained weights.

    It is fused, because a fused optimizer can skip an update by a flag on the device (`found_inf`). On a GPU
    its steps can be captured in a graph: learning rates are tensors there.

    Args:
        recipe: the optimizer's name and settings.
        model: the network, on its device.
        arch: the network's name, from which the layers and the classifier are known.

    Raises:
        UsageError: ``optim.layer_decay`` is set, and the order of the network's layers is not known.
    """
    optimizer = plain_optimizer(recipe, parameter_groups(recipe, model, arch), fused=True)
    device = next(model.parameters()).device
    if device.type != "cpu":
        keep_rates_on(device, optimizer)
    return optimizer


def plain_optimizer(
    recipe: OptimRecipe, parameters: list[Any], *, fused: bool | None = None
) -> torch.optim.Optimizer:
    """Make the optimizer of a recipe for some parameters, or groups of them.

    Args:
        recipe: the optimizer's name and settings.
        parameters: as torch's optimizers take them.
        fused: as of torch's optimizers; None: torch chooses its implementation.
    """
    settings: dict[str, Any] = {
        "lr": recipe.scaled_lr,
        "weight_decay": recipe.weight_decay,
        "fused": fused,
    }
    if recipe.name == "sgd":
        return torch.optim.SGD(parameters, momentum=recipe.momentum, nesterov=recipe.nesterov, **settings)
    kind = torch.optim.AdamW if recipe.name == "adamw" else torch.optim.Adam
    return kind(parameters, **settings)


def keep_rates_on(device: torch.device, optimizer: torch.optim.Optimizer) -> None:
    """Keep learning rates as tensors on a device, so that a captured step reads the rate of its replay."""
    for group in optimizer.param_groups:
        group["lr"] = torch.full((), group["lr"], dtype=torch.float32, device=device)


@contextlib.contextmanager
def capturable(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """Let Adam's step be captured in the block; fused, it computes the same, but warns outside."""
    groups = [group for group in optimizer.param_groups if "capturable" in group]
    for group in groups:
        group["capturable"] = True
    try:
        yield
    finally:
        for group in groups:
            group["capturable"] = False


def set_learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Set each group's learning rate to ``lr`` times the group's own factor."""
    for group in optimizer.param_groups:
        rate = lr * group.get("lr_scale", 1.0)
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def restore_optimizer(optimizer: torch.optim.Optimizer, state: dict[str, Any]) -> None:
    """Load what a checkpoint holds of an optimizer, but for learning rates: each step sets them anew.

    The checkpoint may be of another device, where rates are of another kind.
    """
    rates = [group["lr"] for group in optimizer.param_groups]
    optimizer.load_state_dict(state)
    for group, rate in zip(optimizer.param_groups, rates, strict=True):
        group["lr"] = rate


@contextlib.contextmanager
def in_memory_order(optimizer: torch.optim.Optimizer) -> Iterator[None]:
    """View channels-last weights on a CPU as contiguous tensors, for an optimizer step in the block.

    torch's fused steps run through memory from beginning to end. They copy a gradient that is not contiguous,
    without need, and give wrong results where a gradient's order in memory differs from its weight's. So
    gradients and state are brought into the order of their weight, and all are viewed as (O, H, W, I).

    Args:
        optimizer: fused. Its weights have their own shape again when the block ends.
    """
    channels_last = [
        p
        for group in optimizer.param_groups
        for p in group["params"]
        if p.grad is not None and p.device.type == "cpu" and _is_channels_last(p)
    ]
    for p in channels_last:
        _permute(p, optimizer, (0, 2, 3, 1))
    try:
        yield
    finally:
        for p in channels_last:
            _permute(p, optimizer, (0, 3, 1, 2))


def _is_channels_last(p: Tensor) -> bool:
    return p.dim() == 4 and not p.is_contiguous() and p.is_contiguous(memory_format=torch.channels_last)


def _permute(p: Tensor, optimizer: torch.optim.Optimizer, order: tuple[int, ...]) -> None:
    """Permute the dimensions of a weight, its gradient and its optimizer state, in place.

    A gradient or state with another order in memory than its weight's is copied into that order first.
    """

    def permuted(tensor: Tensor) -> Tensor:
        in_order = tensor if tensor.stride() == p.stride() else torch.empty_like(p).copy_(tensor)
        return in_order.detach().permute(order)

    state = optimizer.state.get(p, {})
    views = {
        name: permuted(value)
        for name, value in state.items()
        if isinstance(value, Tensor) and value.shape == p.shape
    }
    gradient = None if p.grad is None else permuted(p.grad)
    p.grad = None  # torch refuses a gradient of another shape than its weight's
    p.data = p.data.permute(order)
    p.grad = gradient
    state.update(views)


def learning_rate(recipe: OptimRecipe, step: int, steps_per_epoch: int, total_steps: int) -> float:
    """Compute the learning rate of one step; a resumed run needs no state of a scheduler.

    Args:
        recipe: peak, schedule, warm-up.
        step: number of optimizer steps done before this one.
        steps_per_epoch: number of optimizer steps of an epoch.
        total_steps: number of optimizer steps of the run.

    Returns:
        The rate. It rises linearly from 0 in the warm-up. Then it falls by half a cosine to `min_lr` at the
        end, or by the factor `gamma` at each milestone, or stays.

    After half of a cosine's steps half of the peak is left:

    >>> recipe = OptimRecipe(lr=0.2, epochs=1, schedule="cosine", warmup_epochs=0)
    >>> round(learning_rate(recipe, step=5, steps_per_epoch=10, total_steps=10), 6)
    0.1
    """
    warmup = round(recipe.warmup_epochs * steps_per_epoch)
    if step < warmup:
        return recipe.scaled_lr * (step + 1) / warmup
    if recipe.schedule == "cosine":
        done = (step - warmup) / max(1, total_steps - warmup)
        above = recipe.scaled_lr - recipe.min_lr
        return recipe.min_lr + above * 0.5 * (1.0 + math.cos(math.pi * min(1.0, done)))
    if recipe.schedule == "step" and recipe.milestones is not None:
        return recipe.scaled_lr * recipe.gamma ** sum(
            step >= epoch * steps_per_epoch for epoch in recipe.milestones
        )
    if recipe.schedule == "step":
        return recipe.scaled_lr * recipe.gamma ** (step // (recipe.step_epochs * steps_per_epoch))
    return recipe.scaled_lr
