"""Builds a method by its name or from a recipe."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from torch import Tensor

from mpt_kernels.reference import lm_distance
from mpt_kernels.types import LossSettings
from mptctl.methods.autograd import AutogradMethod
from mptctl.methods.checked import Checked
from mptctl.methods.criteria import CRITERIA, RowCriterion, criterion_from_recipe, with_margin
from mptctl.methods.fused import FusedMethod
from mptctl.methods.method import Method
from mptctl.methods.own import OwnMethod
from mptctl.methods.rows import ROWS, row_of, start_epoch
from mptctl.names import Distance
from mptctl.recipe import CriterionRecipe, MethodRecipe, validate_criterion, validate_method
from mptctl.recipe.own import find_own

# Weight of each teacher's distillation term, by distance, if the recipe has no `lam` (the paper's settings).
LAMBDA: dict[Distance | None, float] = {"kl": 1.0, "lm": 0.4, None: 0.0}


def topk_lm_distance(student: Tensor, teacher: Tensor, top_k: int) -> Tensor:
    """Half the squared difference of logits, summed over the teacher's K largest classes and divided by C.

    This is top-K distillation (Zhao et al., TPAMI 2024): other classes count as equal.

    Args:
        student: (N, C) logits.
        teacher: (N, C) logits.
        top_k: K; above C it counts as C.

    Returns:
        (N,), one distance per sample; zeros where C is 0.

    Raises:
        ValueError: the shapes differ.

    >>> import torch
    >>> student, teacher = torch.zeros(1, 3), torch.tensor([[3.0, 1.0, 0.0]])
    >>> topk_lm_distance(student, teacher, top_k=1).tolist()  # 9 / 2 / 3
    [1.5]
    """
    if student.shape != teacher.shape:
        raise ValueError(f"student {tuple(student.shape)} and teacher {tuple(teacher.shape)} differ in shape")
    num_classes = student.shape[1]
    largest = teacher.topk(min(top_k, num_classes), dim=1).indices
    distance = lm_distance(student.gather(1, largest), teacher.gather(1, largest), "sum")
    return distance / max(num_classes, 1)


def build_method(
    name: str,
    *,
    num_old: int,
    criterion: Mapping[str, Any] | None = None,
    margin: float = 0.0,
    class_weights: Tensor | None = None,
    **settings: Any,
) -> Method:
    """Build a method by name, for a training loop of any kind.

    Args:
        name: one of `mptctl.names.METHOD_NAMES`, or one of your own.
        num_old: number of old classes, which are the first columns of the logits.
        criterion: keys of the recipe's ``criterion`` group, such as ``{"name": "mbls"}``; None:
            cross-entropy.
        margin: subtracted from the true class's logit before the criterion: s * m of the recipe's head.
        class_weights: (C,) factor of the criterion by the label, not of distillation; None: 1.
        settings: keys of the recipe's ``method`` group, with the paper's values as defaults; settings of one
            of your own.

    Raises:
        UsageError: an unknown name or setting, with the nearest valid one.

    Examples:
        >>> method = build_method("mpt-lm", num_old=5, k=2.0)
        >>> method.settings.k, method.settings.lam_old, sorted(method.teachers)
        (2.0, 0.4, [<Role.OLD: 'old'>, <Role.REF: 'ref'>])
    """
    base = validate_criterion(criterion or {})
    return method_from_recipe(
        validate_method({"name": name, **settings}), num_old, base, margin, class_weights
    )


def method_from_recipe(
    recipe: MethodRecipe,
    num_old: int,
    criterion: CriterionRecipe,
    margin: float = 0.0,
    class_weights: Tensor | None = None,
) -> Method:
    """Build the method that a recipe describes.

    Args:
        recipe: the recipe's ``method`` group.
        num_old: number of old classes.
        criterion: the recipe's ``criterion`` group.
        margin: subtracted from the true class's logit before the criterion, not in distillation.
        class_weights: (C,) of `compute_class_weights`, on the device of the logits; None: 1.

    Raises:
        UsageError: there is no such method here.
    """
    own = find_own("method", recipe.name)
    if own is not None:
        return OwnMethod(
            name=own.name,
            settings=LossSettings(num_old, distance=None),
            teachers=own.teachers,
            function=Checked.of(own, recipe.settings),
        )
    method = _BUILDERS.get(recipe.name, _build_focal)(recipe, num_old)
    if criterion.name == "ce" and not margin and class_weights is None:
        return method
    rows = criterion_from_recipe(criterion, class_weights).rows
    return _with_criterion(method, partial(with_margin, criterion=rows, margin=margin) if margin else rows)


def _with_criterion(method: Method, criterion: RowCriterion) -> Method:
    """Return the method with another criterion, also in the epochs before the method starts."""
    return AutogradMethod(
        name=method.name,
        settings=method.settings,
        teachers=method.teachers,
        start_epoch=method.start_epoch,
        before=None if method.before is None else _with_criterion(method.before, criterion),
        criterion=criterion,
        distance=method.distance if isinstance(method, AutogradMethod) else None,
        gate=method.gate if isinstance(method, AutogradMethod) else "none",
        k_schedule=method.k_schedule,
    )


def _build_focal(recipe: MethodRecipe, num_old: int) -> Method:
    """Build a method of biased cross-entropy and focal distillation, from its row in the table."""
    row = row_of(recipe.name)
    recipe = recipe.model_copy(update=row.fixed)
    lam = recipe.lam if recipe.lam is not None else LAMBDA[row.distance]
    settings = LossSettings(
        num_old,
        distance=row.distance,
        lam_old=lam,
        lam_ref=lam,
        alpha=recipe.alpha,
        beta=recipe.beta,
        tau=recipe.tau,
        tau_squared=recipe.tau_squared,
        lm_reduction=recipe.lm_reduction,
        k=recipe.k if row.bias else 0.0,
    )
    common: dict[str, Any] = {
        "name": recipe.name,
        "settings": settings,
        "teachers": row.teachers,
        "k_schedule": recipe.k_schedule,
    }
    if recipe.gate == "none" or row.distance is None:
        return FusedMethod(**common)
    return AutogradMethod(criterion=CRITERIA["ce"], gate=recipe.gate, **common)


def _build_naive(recipe: MethodRecipe, num_old: int) -> Method:
    """Build pct-naive: cross-entropy, with a larger weight of rows where the old model is right."""
    settings = LossSettings(num_old, distance=None, ce_focal_weight=recipe.naive_weight)
    return FusedMethod(name=recipe.name, settings=settings, teachers=ROWS[recipe.name].teachers)


def _build_elodi(recipe: MethodRecipe, num_old: int, *, top_k: bool = False) -> Method:
    """Build ELODI: plain cross-entropy, joined by logit matching from ``elodi_start_epoch`` on."""
    row = ROWS[recipe.name]
    plain = FusedMethod(name=recipe.name, settings=LossSettings(num_old, distance=None))
    settings = LossSettings(
        num_old,
        distance=row.distance,
        lam_old=recipe.elodi_old,
        lam_ref=recipe.elodi_ref,
        alpha=1.0,
        beta=0.0,
        lm_reduction=recipe.lm_reduction,
    )
    common: dict[str, Any] = {
        "name": recipe.name,
        "settings": settings,
        "teachers": row.teachers,
        "start_epoch": start_epoch(recipe),
        "before": plain,
    }
    if not top_k:
        return FusedMethod(**common)
    largest = partial(topk_lm_distance, top_k=recipe.elodi_top_k)
    return AutogradMethod(criterion=CRITERIA["ce"], distance=largest, **common)


# Builders of the methods that `_build_focal` does not build.
_BUILDERS: dict[str, Callable[[MethodRecipe, int], Method]] = {
    "pct-naive": _build_naive,
    "elodi": _build_elodi,
    "elodi-topk": partial(_build_elodi, top_k=True),
}
