"""Optimizer and learning rate: what moves the weights, and how far, at each step of the run."""

from __future__ import annotations

import math

import torch
from torch import nn

from mptctl.recipe import OptimRecipe


def build_optimizer(recipe: OptimRecipe, model: nn.Module) -> torch.optim.Optimizer:
    """Make the optimizer over what the model trains.

    The fused variants are used everywhere: they take a flag on the device that skips the update.
    """
    parameters = [p for p in model.parameters() if p.requires_grad]
    if recipe.name == "adamw":
        return torch.optim.AdamW(
            parameters, lr=recipe.scaled_lr, weight_decay=recipe.weight_decay, fused=True
        )
    if recipe.name == "adam":
        return torch.optim.Adam(parameters, lr=recipe.scaled_lr, weight_decay=recipe.weight_decay, fused=True)
    return torch.optim.SGD(
        parameters,
        lr=recipe.scaled_lr,
        momentum=recipe.momentum,
        weight_decay=recipe.weight_decay,
        nesterov=recipe.nesterov,
        fused=True,
    )


def learning_rate(recipe: OptimRecipe, step: int, steps_per_epoch: int, total_steps: int) -> float:
    """Learning rate of one step, as a pure function, so that a resumed run needs no scheduler state.

    Args:
        recipe: height, shape, warm-up.
        step: optimizer steps done before this one.
        steps_per_epoch: of the training part.
        total_steps: the run's own length, which the cosine spans.

    Returns:
        The rate: linear from 0 in the warm-up; then half a cosine to 0, or drops by gamma, or constant.
    """
    warmup = round(recipe.warmup_epochs * steps_per_epoch)
    if step < warmup:
        return recipe.scaled_lr * (step + 1) / warmup
    if recipe.schedule == "cosine":
        done = (step - warmup) / max(1, total_steps - warmup)
        return recipe.scaled_lr * 0.5 * (1.0 + math.cos(math.pi * min(1.0, done)))
    if recipe.schedule == "step" and recipe.milestones is not None:
        return recipe.scaled_lr * recipe.gamma ** sum(
            step >= epoch * steps_per_epoch for epoch in recipe.milestones
        )
    if recipe.schedule == "step":
        return recipe.scaled_lr * recipe.gamma ** (step // (recipe.step_epochs * steps_per_epoch))
    return recipe.scaled_lr
