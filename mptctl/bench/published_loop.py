"""The training step of published code, which a user would take instead of ours."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from mpt_kernels.types import LossSettings
from mptctl.machine.device import autocast
from mptctl.methods.method import Method
from mptctl.methods.terms import mpt_terms
from mptctl.models.layers import restore_convolutions
from mptctl.models.networks import build_model, set_training_mode
from mptctl.names import Role
from mptctl.recipe import Recipe
from mptctl.training.optimizer.optim import plain_optimizer


class PublishedLoop:
    """The usual training loop in plain torch: neither set up for speed nor slowed down.

    Models have torch's default memory format, and the optimizer has torch's defaults. Each step computes the
    teachers' logits without gradients, adds the bias to a copy of the student's logits, differentiates the
    loss by autograd, operation by operation, and reads the loss.

    Args:
        recipe: model, optimizer and precision; in bf16 all forward passes are under autocast.
        method: gives the loss; one that `refuses` does not refuse.
        num_classes: number of classes of student and reference.
        images: (N, 3, H, W), the batch of every step.
        labels: (N,) int64.
    """

    def __init__(
        self, recipe: Recipe, method: Method, num_classes: int, images: Tensor, labels: Tensor
    ) -> None:
        self.images, self.labels = images.contiguous(), labels
        self.settings, self.precision = method.settings, recipe.runtime.precision
        widths = {Role.OLD: method.settings.num_old, Role.REF: num_classes}

        def build(classes: int) -> nn.Module:
            model = build_model(recipe.model, classes, recipe.data.image_size)
            restore_convolutions(model)
            return model.to(images.device)

        self.teachers = {role: build(widths[role]).eval() for role in Role if role in method.teachers}
        self.student = build(num_classes)
        set_training_mode(self.student, recipe.model)
        trained = [p for p in self.student.parameters() if p.requires_grad]
        self.optimizer = plain_optimizer(recipe.optim, trained)

    @staticmethod
    def refuses(method: Method) -> str | None:
        """Return the reason why the published loop has no such method; None if it has."""
        settings = method.settings
        if method.terms is mpt_terms and settings.distance is not None and not settings.ce_focal_weight:
            return None
        return f"{method.name} with this criterion or gate is not a loss of the published loop"

    def step(self) -> None:
        """Take an optimizer step on the batch."""
        with autocast(self.images.device, self.precision):
            with torch.no_grad():
                of_teachers = {role: teacher(self.images) for role, teacher in self.teachers.items()}
            logits = self.student(self.images)
        old, ref = of_teachers.get(Role.OLD), of_teachers.get(Role.REF)
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
        loss.item()  # as a loop does to print its loss


def published_loss(
    logits: Tensor, labels: Tensor, old: Tensor | None, ref: Tensor | None, settings: LossSettings
) -> Tensor:
    """Compute the paper's Eq. 3, a scalar mean over rows, by plain torch operations; no row is ignored.

    Args:
        logits: (N, C) of the student.
        labels: (N,) int64.
        old: (N, C_old) of the old model, or None.
        ref: (N, C) of the reference, or None.
        settings: number of old classes, bias, weights and distance.
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
    """Compute the mean over rows of focal weight times distance, for logits of one shape."""
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
