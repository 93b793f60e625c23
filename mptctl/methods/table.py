"""Methods: name -> which teachers, which terms. A new method is an entry in the table."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mpt_kernels.types import LossSettings
from mptctl.methods.method import Method
from mptctl.recipe import MethodRecipe, validate_method

# Weight of each distillation where the recipe names none (the paper's settings).
LAMBDA = {"kl": 1.0, "lm": 0.4}


def build_method(name: str, *, num_old: int, **settings: Any) -> Method:
    """A method by name.

    Args:
        name: one of `mptctl.names.METHOD_NAMES`.
        num_old: number of old classes, the first columns of the logits.
        settings: keys of the recipe's ``method`` group; what is not named is the paper's.

    Raises:
        UsageError: an unknown name or setting, with the nearest valid one.
    """
    return method_from_recipe(validate_method({"name": name, **settings}), num_old)


def method_from_recipe(recipe: MethodRecipe, num_old: int) -> Method:
    """The method that a recipe describes, for a split with ``num_old`` old classes."""
    return _TABLE[recipe.name](recipe, num_old)


def _plain(recipe: MethodRecipe, num_old: int) -> Method:
    return Method(recipe.name, False, False, LossSettings(num_old, distance=None))


def _pct_naive(recipe: MethodRecipe, num_old: int) -> Method:
    settings = LossSettings(num_old, distance=None, ce_focal_weight=recipe.naive_weight)
    return Method(recipe.name, True, False, settings)


def _focal(distance: str | None, *, ref: bool, bias: bool) -> Callable[[MethodRecipe, int], Method]:
    """Focal distillation from the old model, and from the reference where ``ref``; with the bias where ``bias``."""

    def build(recipe: MethodRecipe, num_old: int) -> Method:
        lam = recipe.lam if recipe.lam is not None else LAMBDA.get(distance or "", 0.0)
        settings = LossSettings(
            num_old,
            distance=distance,  # type: ignore[arg-type]
            lam_old=lam,
            lam_ref=lam,
            alpha=recipe.alpha,
            beta=recipe.beta,
            tau=recipe.tau,
            tau_squared=recipe.tau_squared,
            lm_reduction=recipe.lm_reduction,
        )
        taught = distance is not None
        return Method(recipe.name, taught, taught and ref, settings, k=recipe.k if bias else 0.0)

    return build


def _elodi(*, top_k: bool) -> Callable[[MethodRecipe, int], Method]:
    def build(recipe: MethodRecipe, num_old: int) -> Method:
        settings = LossSettings(
            num_old,
            distance="lm",
            lam_old=recipe.elodi_old,
            lam_ref=recipe.elodi_ref,
            alpha=1.0,
            beta=0.0,
            lm_reduction="mean" if top_k else recipe.lm_reduction,
        )
        return Method(
            recipe.name,
            True,
            True,
            settings,
            top_k=recipe.elodi_top_k if top_k else None,
            start_epoch=recipe.elodi_start_epoch,
        )

    return build


_TABLE: dict[str, Callable[[MethodRecipe, int], Method]] = {
    "no-treatment": _plain,
    "pct-naive": _pct_naive,
    "pct-kl": _focal("kl", ref=False, bias=False),
    "pct-lm": _focal("lm", ref=False, bias=False),
    "mpt-kl": _focal("kl", ref=True, bias=True),
    "mpt-lm": _focal("lm", ref=True, bias=True),
    "mpt-nodistill": _focal(None, ref=False, bias=True),
    "mpt-kl-nobias": _focal("kl", ref=True, bias=False),
    "mpt-lm-nobias": _focal("lm", ref=True, bias=False),
    "elodi": _elodi(top_k=False),
    "elodi-topk": _elodi(top_k=True),
}
