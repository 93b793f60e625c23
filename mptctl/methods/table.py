"""Builds a method by its name or from a recipe."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor

from mpt_kernels.types import LossSettings
from mptctl.methods.checked import Checked
from mptctl.methods.criteria import criterion_from_recipe, with_margin
from mptctl.methods.method import Method
from mptctl.methods.own import OwnTerms
from mptctl.methods.rows import MethodRow, row_of, start_epoch
from mptctl.methods.terms import RowCriterion, TermsFunction, mpt_terms, topk_lm_distance
from mptctl.names import Distance
from mptctl.recipe import CriterionRecipe, MethodRecipe, validate_criterion, validate_method

# Weight of each teacher's distillation term, by distance, if the recipe has no `lam` (the paper's settings).
LAMBDA: dict[Distance | None, float] = {"kl": 1.0, "lm": 0.4, None: 0.0}


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
    row = row_of(recipe.name)
    if row.own is not None:
        return Method(
            name=recipe.name,
            settings=LossSettings(num_old, distance=None),
            terms=OwnTerms(Checked.of(row.own, recipe.settings)),
            teachers=row.teachers,
        )
    loss = _row_criterion(criterion, margin, class_weights)
    largest = partial(topk_lm_distance, top_k=recipe.elodi_top_k) if "elodi_top_k" in row.keys else None
    method = Method(
        name=recipe.name,
        settings=_settings_of_ours(row, recipe, num_old),
        terms=_mpt_terms_with(
            criterion=loss,
            distance=largest,
            gate=recipe.gate if "gate" in row.keys and recipe.gate != "none" else None,
        ),
        teachers=row.teachers,
        k_schedule=recipe.k_schedule if row.bias else "constant",
    )
    if not row.starts_late:
        return method
    plain = Method(
        name=recipe.name, settings=LossSettings(num_old, distance=None), terms=_mpt_terms_with(criterion=loss)
    )
    return replace(method, start_epoch=start_epoch(recipe), before=plain)


def _row_criterion(
    criterion: CriterionRecipe, margin: float, class_weights: Tensor | None
) -> RowCriterion | None:
    """The loss of the biased logits; None where it is the cross-entropy that the kernel computes."""
    if criterion.name == "ce" and not margin and class_weights is None:
        return None
    rows = criterion_from_recipe(criterion, class_weights).rows
    return partial(with_margin, criterion=rows, margin=margin) if margin else rows


def _mpt_terms_with(**options: Any) -> TermsFunction:
    """Return `mpt_terms` with the options that are not None; without any, as the kernel computes it."""
    given = {name: option for name, option in options.items() if option is not None}
    return partial(mpt_terms, **given) if given else mpt_terms


def _settings_of_ours(row: MethodRow, recipe: MethodRecipe, num_old: int) -> LossSettings:
    """The settings of the loss: the recipe's, but for those that the method fixes or does not use."""
    recipe = recipe.model_copy(update=row.fixed)
    lam = recipe.lam if recipe.lam is not None else LAMBDA[row.distance]
    lam_old, lam_ref = (recipe.elodi_old, recipe.elodi_ref) if row.starts_late else (lam, lam)
    return LossSettings(
        num_old,
        distance=row.distance,
        lam_old=lam_old,
        lam_ref=lam_ref,
        alpha=recipe.alpha,
        beta=recipe.beta,
        tau=recipe.tau,
        tau_squared=recipe.tau_squared,
        lm_reduction=recipe.lm_reduction,
        ce_focal_weight=recipe.naive_weight if "naive_weight" in row.keys else 0.0,
        k=recipe.k if row.bias else 0.0,
    )
