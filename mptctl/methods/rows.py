"""The table of methods: teachers, keys and distance by name; imports no torch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

from mptctl.errors import UsageError
from mptctl.names import Distance, Role
from mptctl.recipe import MethodRecipe, Recipe
from mptctl.recipe.own import Own, find_own, refuse_unknown


class MethodRow(NamedTuple):
    """A method, ours or one's own, as far as it is known before torch is loaded.

    Attributes:
        teachers: roles of the models whose logits the method needs.
        keys: keys of the recipe's group ``method`` that the method uses, beside ``init``.
        distance: between student and teacher logits; None where the method does not distil by one of ours.
        fixed: settings of the method that override the recipe.
        own: the method of one's own; None for ours.
    """

    teachers: frozenset[Role]
    keys: frozenset[str] = frozenset()
    distance: Distance | None = None
    fixed: Mapping[str, Any] = MappingProxyType({})
    own: Own | None = None

    @property
    def bias(self) -> bool:
        """True where the recipe's k is added to the logits of new classes."""
        return "k" in self.keys

    @property
    def starts_late(self) -> bool:
        """True where the method is on only from the recipe's ``elodi_start_epoch`` on."""
        return "elodi_start_epoch" in self.keys


_NONE: frozenset[Role] = frozenset()
_OLD, _BOTH = frozenset({Role.OLD}), frozenset(Role)
# Keys of the bias, and of focal distillation by each distance.
_BIAS = frozenset({"k", "k_schedule", "max_nfr", "confidence"})
_FOCAL = frozenset({"lam", "alpha", "beta", "gate"})
_KL, _LM = _FOCAL | {"tau", "tau_squared"}, _FOCAL | {"lm_reduction"}
_ELODI = frozenset({"elodi_old", "elodi_ref", "elodi_start_epoch"})
# ELODI (Zhao et al., TPAMI 2024) matches logits on all rows alike.
_ON_ALL_ROWS = {"alpha": 1.0, "beta": 0.0}
# Settings of Yan et al., CVPR 2021, and their code (jun-fang/PCT).
_PCT_OWN = {"tau": 100.0, "tau_squared": True, "lam": 1.0, "alpha": 1.0, "beta": 5.0}
ROWS: dict[str, MethodRow] = {
    "no-treatment": MethodRow(_NONE),
    "pct-naive": MethodRow(_OLD, frozenset({"naive_weight"})),
    "pct-kl": MethodRow(_OLD, _KL, "kl"),
    "pct-lm": MethodRow(_OLD, _LM, "lm"),
    "pct-kl-own": MethodRow(_OLD, _KL - _PCT_OWN.keys(), "kl", _PCT_OWN),
    "mpt-kl": MethodRow(_BOTH, _BIAS | _KL, "kl"),
    "mpt-lm": MethodRow(_BOTH, _BIAS | _LM, "lm"),
    "mpt-nodistill": MethodRow(_NONE, _BIAS),
    "mpt-kl-noref": MethodRow(_OLD, _BIAS | _KL, "kl"),
    "mpt-lm-noref": MethodRow(_OLD, _BIAS | _LM, "lm"),
    "mpt-kl-nobias": MethodRow(_BOTH, _KL, "kl"),
    "mpt-lm-nobias": MethodRow(_BOTH, _LM, "lm"),
    "elodi": MethodRow(_BOTH, _ELODI | {"lm_reduction"}, "lm", _ON_ALL_ROWS),
    "elodi-topk": MethodRow(_BOTH, _ELODI | {"elodi_top_k"}, "lm", _ON_ALL_ROWS),
}


def row_of(name: str) -> MethodRow:
    """The row of a method, ours or one's own.

    Raises:
        UsageError: there is none; the message says how a plugin is given.
    """
    own = find_own("method", name)
    if own is not None:
        return MethodRow(own.teachers, own=own)
    refuse_unknown("method", name)
    return ROWS[name]


def distance_of(name: str) -> Distance | None:
    """The distance between student and teacher logits; None where there is none, and for one's own."""
    return ROWS[name].distance if name in ROWS else None


def used_keys(name: str) -> set[str]:
    """The keys of the recipe's group ``method`` that a method uses, without settings of one's own."""
    return {"init"} | row_of(name).keys


def refuse_unused_keys(name: str, keys: Iterable[str], where: str) -> None:
    """Refuse to search a key that a method does not use, since its trials would be equal.

    Args:
        name: of the method.
        keys: of the recipe, in full, such as ``method.lam``.
        where: the flag or the place of the keys, for the message.

    Raises:
        UsageError: a key of the group ``method`` is not used.
    """
    used = {f"method.{key}" for key in used_keys(name)}
    for key in keys:
        if key.startswith("method.") and not key.startswith("method.settings.") and key not in used:
            own = " or method.settings.KEY" if row_of(name).own else ""
            raise UsageError(
                f"{where} {key}: {name} does not use it, and all trials would be equal; search "
                f"{', '.join(sorted(used))}{own}, or a key of another group"
            )


def mpt_method(distance: Distance, with_ref: bool = True) -> str:
    """The name of the MPT method with a distance, and with or without a reference."""
    wanted = (distance, _BOTH if with_ref else _OLD, True)
    return next(name for name, row in ROWS.items() if (row.distance, row.teachers, row.bias) == wanted)


def chosen_mpt_method(recipe: MethodRecipe, distance: Distance | None = None, with_ref: bool = True) -> str:
    """The name of the MPT method of a given distance, else of the recipe's, else of KL divergence.

    The recipe's distance is that of its method, so a recipe that `tune` wrote needs no flag.
    """
    return mpt_method(distance or distance_of(recipe.name) or "kl", with_ref)


def start_epoch(recipe: MethodRecipe) -> int:
    """The first epoch, counted from 0, in which the method is on."""
    return recipe.elodi_start_epoch if recipe.name in ROWS and ROWS[recipe.name].starts_late else 0


def first_best_epoch(recipe: MethodRecipe, epochs: int) -> int:
    """The first epoch, counted from 0, that can become ``best.pt`` in a run of ``epochs`` epochs."""
    return last_quarter_start(epochs) if nfr_budget(recipe) is not None else start_epoch(recipe)


def last_quarter_start(epochs: int) -> int:
    """The first epoch, counted from 0, of a run's last quarter, where a budget of flips no longer moves k.

    >>> last_quarter_start(18)  # epochs 14 to 18, counted from 1
    13
    """
    return 3 * epochs // 4


def nfr_budget(recipe: MethodRecipe) -> float | None:
    """The recipe's limit on NFR, a fraction, for which k is moved; None without a limit or without a bias."""
    return None if recipe.max_nfr is None or not row_of(recipe.name).bias else recipe.max_nfr / 100


def refuse_if_never_on(recipe: Recipe, steps_per_epoch: int) -> None:
    """Refuse a run that ends before its method begins: its result would be that of another method.

    Args:
        recipe: of the run.
        steps_per_epoch: number of optimizer steps of one epoch.

    Raises:
        UsageError: the run is too short; the message names the key that ends it and the value that it needs.
    """
    start, optim = start_epoch(recipe.method), recipe.optim
    ends = {
        "optim.epochs": (optim.epochs, start),
        "optim.max_steps": (optim.max_steps, start * steps_per_epoch),
    }
    for key, (value, before) in ends.items():
        if start and value is not None and value <= before:
            raise UsageError(
                f"{key} {value}: the run ends before {recipe.method.name} begins to distil, in epoch "
                f"{start + 1} (method.elodi_start_epoch {start}, counted from 0); set {key} to at least "
                f"{before + 1}"
            )
