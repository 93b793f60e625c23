"""A training step as published code has it: what a user would take instead of ours."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mpt_kernels.types import LossSettings
from mptctl.machine.device import autocast
from mptctl.methods.fused import FusedMethod
from mptctl.methods.method import Method
from mptctl.models.layers import restore_convolutions
from mptctl.models.networks import build_model, set_training_mode
from mptctl.names import Role
from mptctl.recipe import OptimRecipe, Recipe


class PublishedLoop:
    """The usual loop in plain torch: nothing in it is set up for speed, and nothing is slowed down.

    Models compute, and lie in memory, as torch makes them, and the optimizer is torch's default. Teachers
    answer inside the step, without gradients; the bias goes on a copy of the logits; autograd differentiates
    the losses, operation by operation; the loss is looked at in every step.

    Args:
        recipe: model, optimizer and precision; in bf16 all forward passes are under autocast.
        method: its loss; see `refuses`.
        num_classes: of student and reference.
        images: (N, 3, H, W).
        labels: (N,) int64.
    """

    def __init__(
        self, recipe: Recipe, method: Method, num_classes: int, images: Tensor, labels: Tensor
    ) -> None:
        self.images, self.labels = images.contiguous(), labels
        self.settings, self.precision = method.settings, recipe.runtime.precision
        widths = {Role.OLD: method.settings.num_old, Role.REF: num_classes}

        def model(classes: int) -> nn.Module:
            made = build_model(recipe.model, classes, recipe.data.image_size)
            restore_convolutions(made)
            return made.to(images.device)

        self.teachers = {role: model(widths[role]).eval() for role in Role if role in method.teachers}
        self.student = model(num_classes)
        set_training_mode(self.student, recipe.model)
        self.optimizer = _default_optimizer(recipe.optim, self.student)

    @staticmethod
    def refuses(method: Method) -> str | None:
        """Why there is no such loop for a method; None where there is one."""
        settings = method.settings
        if isinstance(method, FusedMethod) and settings.distance is not None and not settings.ce_focal_weight:
            return None
        return f"{method.name} with this criterion or gate is not a loss of the published loop"

    def step(self) -> None:
        """Take a step on the batch."""
        with autocast(self.images.device, self.precision):
            with torch.no_grad():
                answers = {role: teacher(self.images) for role, teacher in self.teachers.items()}
            logits = self.student(self.images)
        old, ref = answers.get(Role.OLD), answers.get(Role.REF)
        loss = published_loss(
            logits.float(),
            self.labels,
            None if old is None else old.float(),
            None if ref is None else ref.float(),
            self.settings,
        )
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        loss.item()  # what a loop does that prints its loss


def published_loss(
    logits: Tensor, labels: Tensor, old: Tensor | None, ref: Tensor | None, settings: LossSettings
) -> Tensor:
    """Eq. 3 as one writes it down: the mean over rows, differentiable, for batches without ignored rows.

    Args:
        logits: (N, C) of the student.
        labels: (N,) int64.
        old: (N, C_old) of the old model, or None.
        ref: (N, C) of the reference, or None.
        settings: bias, weights and distance.
    """
    biased = logits.clone()
    biased[:, settings.num_old :] += settings.k
    loss = F.cross_entropy(biased, labels)
    if old is not None:
        loss = loss + settings.lam_old * _distil(logits[:, : settings.num_old], old, labels, settings)
    if ref is not None:
        loss = loss + settings.lam_ref * _distil(logits, ref, labels, settings)
    return loss


def _distil(student: Tensor, teacher: Tensor, labels: Tensor, settings: LossSettings) -> Tensor:
    """The mean over rows of focal weight times distance."""
    if settings.distance == "kl":
        tau = settings.tau
        distance = F.kl_div(
            F.log_softmax(student / tau, dim=1), F.softmax(teacher / tau, dim=1), reduction="none"
        ).sum(dim=1)
        distance = distance * tau**2 if settings.tau_squared else distance
    else:
        squares = F.mse_loss(student, teacher, reduction="none")
        distance = 0.5 * (squares.mean(dim=1) if settings.lm_reduction == "mean" else squares.sum(dim=1))
    right = teacher.argmax(dim=1) == labels
    return ((settings.alpha + settings.beta * right.float()) * distance).mean()


def _default_optimizer(recipe: OptimRecipe, model: nn.Module) -> torch.optim.Optimizer:
    """The recipe's optimizer as its constructor makes it: fused only where torch does so by itself."""
    parameters = [p for p in model.parameters() if p.requires_grad]
    lr, decay = recipe.scaled_lr, recipe.weight_decay
    if recipe.name == "adamw":
        return torch.optim.AdamW(parameters, lr=lr, weight_decay=decay)
    if recipe.name == "adam":
        return torch.optim.Adam(parameters, lr=lr, weight_decay=decay)
    return torch.optim.SGD(
        parameters, lr=lr, momentum=recipe.momentum, weight_decay=decay, nesterov=recipe.nesterov
    )
