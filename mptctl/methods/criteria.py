"""Criteria: losses of a student's logits against the labels, beside distillation.

A criterion is a function here and a row in CRITERIA. The function takes (N, C) logits, to which the method's
bias is added already, and (N,) labels 0..C-1. It returns (N,), one loss per row. Its keyword arguments are
keys of the recipe's ``criterion`` group. Docstrings write p for softmax(logits) and y for the label.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from mpt_kernels.reference import compute_dtype, cross_entropy, mask_rows
from mpt_kernels.types import LossSettings
from mptctl.methods.checked import Checked
from mptctl.methods.terms import RowCriterion
from mptctl.recipe import CriterionRecipe, validate_criterion
from mptctl.recipe.own import find_own

# Mukhoti et al., "Calibrating Deep Neural Networks using Focal Loss" (NeurIPS 2020), FLSD-53: gamma where p_y
# is at least the threshold, gamma where p_y is below, and the threshold.
FLSD_GAMMA, FLSD_GAMMA_BELOW, FLSD_THRESHOLD = 3.0, 5.0, 0.2


def label_smoothing(logits: Tensor, target: Tensor, *, smoothing: float) -> Tensor:
    """(1 - s) * -log p_y + s * mean over classes of -log p_k (Szegedy et al. 2016).

    Args:
        logits: (N, C).
        target: (N,).
        smoothing: s, the fraction of the target that is spread over all classes.

    With p = (3/4, 1/4) and label 0, 0.8 * 0.2877 + 0.2 * (0.2877 + 1.3863) / 2:

    >>> loss = label_smoothing(torch.tensor([[3.0, 1.0]]).log(), torch.tensor([0]), smoothing=0.2)
    >>> round(loss.item(), 4)
    0.3975
    """
    return F.cross_entropy(logits, target.long(), label_smoothing=smoothing, reduction="none")


def focal(logits: Tensor, target: Tensor, *, gamma: float | Tensor) -> Tensor:
    """(1 - p_y)^gamma * -log p_y (Lin et al. 2017).

    Args:
        logits: (N, C).
        target: (N,).
        gamma: one number or (N,).

    With p = (3/4, 1/4) and label 0, (1/4)^2 * 0.2877:

    >>> loss = focal(torch.tensor([[3.0, 1.0]]).log(), torch.tensor([0]), gamma=2.0)
    >>> round(loss.item(), 4)
    0.018
    """
    ce = cross_entropy(logits, target)
    # 1 - p_y without cancellation. Kept above 0, where a gamma below 1 would have an infinite derivative.
    wrong = -torch.expm1(-ce)
    return wrong.clamp(min=torch.finfo(wrong.dtype).tiny) ** gamma * ce


def sample_dependent_focal(logits: Tensor, target: Tensor) -> Tensor:
    """Focal loss whose gamma is 5 where p_y is below 0.2, else 3 (Mukhoti et al. 2020, FLSD-53).

    Args:
        logits: (N, C).
        target: (N,).

    With p = (3/4, 1/4) and label 0, (1/4)^3 * 0.2877:

    >>> loss = sample_dependent_focal(torch.tensor([[3.0, 1.0]]).log(), torch.tensor([0]))
    >>> round(loss.item(), 4)
    0.0045
    """
    below = torch.exp(-cross_entropy(logits.detach(), target)) < FLSD_THRESHOLD
    gamma = torch.full_like(below, FLSD_GAMMA, dtype=logits.dtype)
    return focal(logits, target, gamma=gamma.masked_fill(below, FLSD_GAMMA_BELOW))


def confidence_penalty(logits: Tensor, target: Tensor, *, weight: float) -> Tensor:
    """-log p_y - weight * H(p), H(p) = -sum over classes of p_k log p_k (Pereyra et al. 2017).

    Args:
        logits: (N, C).
        target: (N,).
        weight: of the entropy.

    With p = (3/4, 1/4) and label 0, 0.2877 - 0.1 * 0.5623:

    >>> loss = confidence_penalty(torch.tensor([[3.0, 1.0]]).log(), torch.tensor([0]), weight=0.1)
    >>> round(loss.item(), 4)
    0.2314
    """
    log_p = F.log_softmax(logits, dim=1)
    p = log_p.exp()
    # A class of probability 0 adds nothing; its logarithm may be minus infinity.
    entropy = -(p * log_p.where(p > 0, 0.0)).sum(dim=1)
    return cross_entropy(logits, target) - weight * entropy


def margin_label_smoothing(
    logits: Tensor, target: Tensor, *, margin: float, alpha: float, reduction: str
) -> Tensor:
    """-log p_y + alpha * mean over classes of max(0, max_j l_j - l_k - margin), l the logits.

    Liu et al. 2022, Eq. 4.

    Args:
        logits: (N, C).
        target: (N,).
        margin: a logit less than this below the largest one costs nothing.
        alpha: weight of the distance beyond the margin.
        reduction: over classes: "mean" as in the published code, or "sum" as in the paper.

    >>> logits, label = torch.tensor([[4.0, 0.0]]), torch.tensor([0])
    >>> loss = margin_label_smoothing(logits, label, margin=1.0, alpha=0.1, reduction="mean")
    >>> round(loss.item(), 4)  # log(1 + e^-4) + 0.1 * (0 + 3) / 2
    0.1681
    """
    beyond = F.relu(logits.amax(dim=1, keepdim=True) - logits - margin)
    penalty = beyond.mean(dim=1) if reduction == "mean" else beyond.sum(dim=1)
    return cross_entropy(logits, target) + alpha * penalty


def with_margin(logits: Tensor, target: Tensor, *, criterion: RowCriterion, margin: float) -> Tensor:
    """Apply a criterion after subtracting a margin from the true class's logit.

    Liu et al., ECCV 2020, Eq. 2 and 4.

    Args:
        logits: (N, C).
        target: (N,).
        criterion: gives one loss per row.
        margin: scale of the logits times the margin of the cosine, s * m; may be negative.

    Of two equal logits the true one loses log 3, so that its probability is 1/4 and the loss log 4:

    >>> margin = torch.tensor(3.0).log().item()
    >>> loss = with_margin(torch.zeros(1, 2), torch.tensor([0]), criterion=cross_entropy, margin=margin)
    >>> round(loss.item(), 4)
    1.3863
    """
    minus_margin = torch.full_like(logits[:, :1], -margin)
    return criterion(logits.scatter_add(1, target.long().unsqueeze(1), minus_margin), target)


def weighted_by_class(logits: Tensor, target: Tensor, *, criterion: RowCriterion, weights: Tensor) -> Tensor:
    """Apply a criterion, and multiply each loss by the weight of the label's class.

    Args:
        logits: (N, C).
        target: (N,).
        criterion: gives one loss per row.
        weights: (C,).

    >>> logits, weights = torch.zeros(1, 2), torch.tensor([2.0, 1.0])
    >>> loss = weighted_by_class(logits, torch.tensor([0]), criterion=cross_entropy, weights=weights)
    >>> round(loss.item(), 4)  # 2 log 2
    1.3863
    """
    return weights.to(logits)[target.long()] * criterion(logits, target)


CRITERIA: dict[str, Callable[..., Tensor]] = {
    "ce": cross_entropy,
    "ls": label_smoothing,
    "fl": focal,
    "flsd": sample_dependent_focal,
    "ecp": confidence_penalty,
    "mbls": margin_label_smoothing,
}


@dataclass(frozen=True)
class Criterion:
    """A criterion with its parameters, callable on logits of any shape.

    Attributes:
        name: as in the recipe.
        rows: the criterion's function, for rows without ignored labels.
        ignore_index: the label of rows to be ignored.
    """

    name: str
    rows: RowCriterion
    ignore_index: int = LossSettings(num_old=0).ignore_index

    def __call__(self, logits: Tensor, target: Tensor) -> Tensor:
        """Compute one loss per label, differentiable in the logits.

        Args:
            logits: (N, C), or for dense prediction (N, C, H, W). Half precision is computed in float32.
            target: (N,) or (N, H, W) integers, 0..C-1 or ``ignore_index``.

        Returns:
            Losses in the target's shape; 0 where the label is ``ignore_index``, even if logits there are not
            finite.

        Raises:
            ValueError: the shapes do not fit.
        """
        if logits.dim() < 2 or target.shape != logits.shape[:1] + logits.shape[2:]:
            raise ValueError(
                f"{self.name}: logits {tuple(logits.shape)} and target {tuple(target.shape)} do not fit; "
                "give (N, C) and (N,), or (N, C, H, W) and (N, H, W)"
            )
        labels = target.reshape(-1)
        valid = labels != self.ignore_index
        flat = logits.movedim(1, -1).reshape(len(labels), logits.shape[1])
        z = mask_rows(flat, valid, compute_dtype(logits))
        return self.rows(z, labels.where(valid, 0)).where(valid, 0.0).reshape(target.shape)


def build_criterion(
    name: str, *, ignore_index: int | None = None, class_weights: Tensor | None = None, **parameters: Any
) -> Criterion:
    """Build a criterion by name, for a training loop of any kind.

    Args:
        name: ``ce``, ``ls``, ``fl``, ``flsd``, ``ecp``, ``mbls``, or one of your own.
        ignore_index: the label of rows to be ignored; None: -100.
        class_weights: (C,) factor of each loss by its label; None: 1.
        parameters: keys of the recipe's ``criterion`` group, with the paper's values as defaults; settings of
            one of your own.

    Raises:
        UsageError: an unknown name or parameter, with the nearest valid one, or a value out of range.
    """
    criterion = criterion_from_recipe(validate_criterion({"name": name, **parameters}), class_weights)
    return criterion if ignore_index is None else Criterion(name, criterion.rows, ignore_index)


def criterion_from_recipe(recipe: CriterionRecipe, class_weights: Tensor | None = None) -> Criterion:
    """Build the criterion that a recipe describes.

    Args:
        recipe: name and parameters; its own ``class_weights`` are not read here.
        class_weights: (C,) as `compute_class_weights` returns them; None: 1.
    """
    own = find_own("criterion", recipe.name)
    rows: RowCriterion
    if own is not None:
        rows = Checked.of(own, recipe.settings)
    else:
        function = CRITERIA[recipe.name]
        keys = inspect.signature(function).parameters.keys() & CriterionRecipe.model_fields.keys()
        rows = partial(function, **{key: getattr(recipe, key) for key in keys})
    if class_weights is not None:
        rows = partial(weighted_by_class, criterion=rows, weights=class_weights)
    return Criterion(recipe.name, rows)
