"""The table of methods: distance, teachers and bias by name; read without torch."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from mptctl.errors import UsageError
from mptctl.names import Distance, MethodName, Role
from mptctl.recipe import MethodRecipe, Recipe


class MethodRow(NamedTuple):
    """A method's row in the table.

    Attributes:
        distance: to its teachers; None where it does not distil.
        teachers: roles of the models whose logits it needs.
        bias: the recipe's k is added to the logits of new classes.
        starts_late: it is on only from the recipe's ``elodi_start_epoch``.
        fixed: settings of the method that override the recipe.
    """

    distance: Distance | None
    teachers: frozenset[Role]
    bias: bool = False
    starts_late: bool = False
    fixed: Mapping[str, Any] = MappingProxyType({})


_NONE: frozenset[Role] = frozenset()
_OLD, _BOTH = frozenset({Role.OLD}), frozenset(Role)
# Yan et al., CVPR 2021, and their code (jun-fang/PCT): tau 100, times tau squared, weight 1, focal weights 1
# and 5.
_PCT_OWN = {"tau": 100.0, "tau_squared": True, "lam": 1.0, "alpha": 1.0, "beta": 5.0}
ROWS: dict[MethodName, MethodRow] = {
    "no-treatment": MethodRow(None, _NONE),
    "pct-naive": MethodRow(None, _OLD),
    "pct-kl": MethodRow("kl", _OLD),
    "pct-lm": MethodRow("lm", _OLD),
    "pct-kl-own": MethodRow("kl", _OLD, fixed=_PCT_OWN),
    "mpt-kl": MethodRow("kl", _BOTH, bias=True),
    "mpt-lm": MethodRow("lm", _BOTH, bias=True),
    "mpt-nodistill": MethodRow(None, _NONE, bias=True),
    "mpt-kl-noref": MethodRow("kl", _OLD, bias=True),
    "mpt-lm-noref": MethodRow("lm", _OLD, bias=True),
    "mpt-kl-nobias": MethodRow("kl", _BOTH),
    "mpt-lm-nobias": MethodRow("lm", _BOTH),
    "elodi": MethodRow("lm", _BOTH, starts_late=True),
    "elodi-topk": MethodRow("lm", _BOTH, starts_late=True),
}


def distance_of(name: MethodName) -> Distance | None:
    """The distance between student and teachers in a method; None where it does not distil."""
    return ROWS[name].distance


def mpt_method(distance: Distance, with_ref: bool = True) -> MethodName:
    """The name of the paper's method with bias and a distance, with or without a reference."""
    wanted = MethodRow(distance, _BOTH if with_ref else _OLD, bias=True)
    return next(name for name, row in ROWS.items() if row == wanted)


def start_epoch(recipe: MethodRecipe) -> int:
    """First epoch, counted from 0, in which the method is on."""
    return recipe.elodi_start_epoch if ROWS[recipe.name].starts_late else 0


def first_best_epoch(recipe: MethodRecipe, epochs: int) -> int:
    """First epoch, counted from 0, whose weights ``best.pt`` can have, in a run of some epochs."""
    return last_quarter(epochs) if budget_of(recipe) is not None else start_epoch(recipe)


def last_quarter(epochs: int) -> int:
    """First epoch, counted from 0, of the last quarter, in which a budget of flips no longer moves k.

    >>> last_quarter(18)  # epochs 14 to 18, counted from 1
    13
    """
    return 3 * epochs // 4


def budget_of(recipe: MethodRecipe) -> float | None:
    """The limit on NFR, a fraction, towards which k is moved; None without a limit or without a bias."""
    return None if recipe.max_nfr is None or not ROWS[recipe.name].bias else recipe.max_nfr / 100


def refuse_if_never_on(recipe: Recipe, steps_per_epoch: int) -> None:
    """Refuse a run that ends before its method begins: its result would be that of another method.

    Args:
        recipe: of the run: its method, and how long it is.
        steps_per_epoch: optimizer steps of one epoch.

    Raises:
        UsageError: names the key that ends the run too early, and the value that it needs.
    """
    optim, start = recipe.optim, start_epoch(recipe.method)
    too_short = None
    if not start:
        return  # on from the beginning, also of a run that trains nothing
    if optim.epochs <= start:
        too_short = ("optim.epochs", optim.epochs, start + 1)
    elif optim.max_steps is not None and optim.max_steps <= start * steps_per_epoch:
        too_short = ("optim.max_steps", optim.max_steps, start * steps_per_epoch + 1)
    if too_short is not None:
        key, value, least = too_short
        raise UsageError(
            f"{key} {value}: the run ends before {recipe.method.name} begins to distil, in epoch {start + 1} "
            f"(method.elodi_start_epoch {start}, counted from 0); set {key} to at least {least}"
        )
