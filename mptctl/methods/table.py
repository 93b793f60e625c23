"""Methods: name -> distance, teachers, bias, and what builds it. A new method is a row of the table."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from mpt_kernels.types import LossSettings
from mptctl.methods.autograd import AutogradMethod
from mptctl.methods.criteria import CRITERIA
from mptctl.methods.fused import FusedMethod
from mptctl.methods.method import Method
from mptctl.methods.topk import topk_lm_distance
from mptctl.names import Distance, MethodName, Role
from mptctl.recipe import MethodRecipe, validate_method

# Weight of each distillation where the recipe names none (the paper's settings).
LAMBDA: dict[Distance | None, float] = {"kl": 1.0, "lm": 0.4, None: 0.0}


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
    row = _TABLE[recipe.name]
    return row.build(row, recipe, num_old)


def distance_of(name: MethodName) -> Distance | None:
    """How a method compares the student with its teachers; None where it does not."""
    return _TABLE[name].distance


def mpt_method(distance: Distance) -> MethodName:
    """The name of the method of the paper, with its bias and both teachers, that has a distance."""
    return next(name for name, row in _TABLE.items() if row == _Row(distance, _BOTH, bias=True))


def _focal(row: _Row, recipe: MethodRecipe, num_old: int) -> Method:
    """Biased cross-entropy, and focal distillation from the row's teachers."""
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
    return FusedMethod(name=recipe.name, settings=settings, teachers=row.teachers)


class _Row(NamedTuple):
    """What a method is.

    distance: to its teachers; None where it does not distil.
    teachers: whose logits it wants.
    bias: whether the recipe's k is added to the logits of new classes.
    build: makes it of its row, the recipe and the number of old classes.
    """

    distance: Distance | None
    teachers: frozenset[Role]
    bias: bool
    build: Callable[[_Row, MethodRecipe, int], Method] = _focal


def _naive(row: _Row, recipe: MethodRecipe, num_old: int) -> Method:
    """Cross-entropy that weighs more where the old model is right."""
    settings = LossSettings(num_old, distance=None, ce_focal_weight=recipe.naive_weight)
    return FusedMethod(name=recipe.name, settings=settings, teachers=row.teachers)


def _elodi(row: _Row, recipe: MethodRecipe, num_old: int, *, top_k: bool = False) -> Method:
    """Logit matching without focal weights, from an epoch on; before it, plain cross-entropy."""
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
        "start_epoch": recipe.elodi_start_epoch,
        "before": plain,
    }
    if not top_k:
        return FusedMethod(**common)
    largest = partial(topk_lm_distance, top_k=recipe.elodi_top_k)
    return AutogradMethod(criterion=CRITERIA["ce"], distance=largest, **common)


_NONE: frozenset[Role] = frozenset()
_OLD, _BOTH = frozenset({Role.OLD}), frozenset(Role)
_TABLE: dict[MethodName, _Row] = {
    "no-treatment": _Row(None, _NONE, bias=False),
    "pct-naive": _Row(None, _OLD, bias=False, build=_naive),
    "pct-kl": _Row("kl", _OLD, bias=False),
    "pct-lm": _Row("lm", _OLD, bias=False),
    "mpt-kl": _Row("kl", _BOTH, bias=True),
    "mpt-lm": _Row("lm", _BOTH, bias=True),
    "mpt-nodistill": _Row(None, _NONE, bias=True),
    "mpt-kl-nobias": _Row("kl", _BOTH, bias=False),
    "mpt-lm-nobias": _Row("lm", _BOTH, bias=False),
    "elodi": _Row("lm", _BOTH, bias=False, build=_elodi),
    "elodi-topk": _Row("lm", _BOTH, bias=False, build=partial(_elodi, top_k=True)),
}
