"""Recipes as a whole: plain data made into one, its keys, and how two of them differ."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from mptctl.errors import UsageError, some
from mptctl.names import METHOD_NAMES
from mptctl.recipe.criterion import CriterionRecipe, refuse_idle
from mptctl.recipe.fields import ROUNDING, SPEED, MethodRecipe, Recipe

# What other programs call some of our keys.
ALSO_CALLED = {
    "amp": "runtime.precision",
    "architecture": "model.arch",
    "batch": "optim.batch_size",
    "bias": "method.k",
    "gradient_clip": "optim.clip_grad_norm",
    "image_resolution": "data.image_size",
    "lambda": "method.lam",
    "learning_rate": "optim.lr",
    "lr_base_scale": "optim.lr_scale",
    "lr_base_size": "optim.lr_for_batch",
    "max_epochs": "optim.epochs",
    "num_epochs": "optim.epochs",
    "num_workers": "data.threads",
    "optimizer": "optim.name",
    "scheduler": "optim.schedule",
    "sync_bn": "runtime.sync_batchnorm",
    "temperature": "method.tau",
    "wd": "optim.weight_decay",
    "workers": "data.threads",
}
# Names that a message holds at most.
MOST_NAMED = 12


def validate_recipe(content: object, where: str) -> Recipe:
    """Turn plain data into a recipe.

    Args:
        content: nested mappings of plain values.
        where: what to call it in a message.

    Raises:
        UsageError: the first problem, with key, expected, got, and the nearest valid name.
    """
    return _validated(content, f"recipe {where}")


def validate_method(content: Mapping[str, Any]) -> MethodRecipe:
    """Turn the name and settings of a method into its part of a recipe.

    Raises:
        UsageError: an unknown name or setting, with the nearest valid one.
    """
    name = content.get("name", "")
    if name not in METHOD_NAMES:
        raise UsageError(f"no such method: {name}{nearest(str(name), METHOD_NAMES)}")
    return _validated({"method": dict(content)}, f"method {name}").method


def validate_criterion(content: Mapping[str, Any]) -> CriterionRecipe:
    """Turn the name and parameters of a criterion into its part of a recipe.

    Raises:
        UsageError: an unknown name or parameter, with the nearest valid one, or a value out of range.
    """
    recipe = _validated({"criterion": dict(content)}, f"criterion {content.get('name', '')}").criterion
    refuse_idle(recipe, content, f"criterion {recipe.name}")
    return recipe


def _validated(content: object, what: str) -> Recipe:
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(part) for part in first["loc"])
        raise UsageError(f"{what}: {_explain(key, first)}") from error


def recipe_keys() -> dict[str, Any]:
    """Every dotted key of a recipe with its pydantic field, in order."""
    groups = {name: field.annotation for name, field in Recipe.model_fields.items()}
    return {
        f"{group}.{key}": field
        for group, model in groups.items()
        if isinstance(model, type) and issubclass(model, BaseModel)
        for key, field in model.model_fields.items()
    }


def keys_called(name: str) -> list[str]:
    """Dotted keys that a word without its group stands for: the same word, one of other programs', or one like it."""
    words: dict[str, list[str]] = {}
    for key in recipe_keys():
        words.setdefault(key.partition(".")[2], []).append(key)
    for other, key in ALSO_CALLED.items():
        words.setdefault(other, []).append(key)
    close = [name] if name in words else difflib.get_close_matches(name, words, n=1, cutoff=0.75)
    return words[close[0]] if close else []


def differences(one: BaseModel, other: BaseModel, prefix: str = "") -> list[tuple[str, Any, Any]]:
    """Field-by-field differences of two models of one type: dotted key, value of the one, value of the other."""
    found: list[tuple[str, Any, Any]] = []
    for key in type(one).model_fields:
        mine, theirs = getattr(one, key), getattr(other, key)
        if isinstance(mine, BaseModel) and isinstance(theirs, BaseModel):
            found += differences(mine, theirs, f"{prefix}{key}.")
        elif mine != theirs:
            found.append((f"{prefix}{key}", mine, theirs))
    return found


def batch_differences(one: Recipe, other: Recipe) -> list[tuple[str, Any, Any]]:
    """What keeps two runs on one split from learning from the same batches in one process; as `differences`."""
    return [
        found
        for found in differences(one, other)
        if found[0].partition(".")[0] in ("data", "runtime") or found[0] == "optim.batch_size"
    ]


def keys_of(group: str, mark: dict[str, Any]) -> set[str]:
    """Keys of one group of a recipe whose fields carry a mark: ``SPEED``, ``ROUNDING`` or ``TRAINING``."""
    return {
        key.partition(".")[2]
        for key, field in recipe_keys().items()
        if key.startswith(f"{group}.") and field.json_schema_extra == mark
    }


def may_change_between_starts() -> frozenset[str]:
    """Dotted keys that may change between a run and its continuation: where and how fast it computes, not what."""
    return frozenset(
        key for key, field in recipe_keys().items() if field.json_schema_extra in (SPEED, ROUNDING)
    )


def _explain(key: str, problem: Any) -> str:
    if problem["type"] == "extra_forbidden":
        return f"unknown key {key}{_nearest_key(key)}"
    got = problem.get("input")
    message = str(problem["msg"]).removeprefix("Value error, ")
    if problem["type"] == "value_error":
        return message
    if problem["type"] == "literal_error" and isinstance(got, str):
        field = recipe_keys().get(key)
        choices = [c for c in get_args(field.annotation) if isinstance(c, str)] if field else []
        return f"{key}: no such value: {_shown(got)}{nearest(got, choices)}"
    return f"{key}: {message[:1].lower()}{message[1:]}, got {_shown(got)}"


def _shown(value: object) -> str:
    """A value of a recipe as a message may hold it: short."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no integer of more than 4,300 digits
        return "a number of very many digits"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _nearest_key(key: str) -> str:
    """The end of a message on an unknown key: the key of that name elsewhere, the most alike, or the groups."""
    group, dot, name = key.partition(".")
    keys = keys_called(name if dot else group)
    in_group = [each for each in keys if each.startswith(f"{group}.")]
    if keys:
        return f"; did you mean {' or '.join(in_group or keys)}?"
    return nearest(
        key, [each for each in recipe_keys() if each.startswith(f"{group}.")] or list(Recipe.model_fields)
    )


def nearest(name: str, names: Sequence[str], lists: str = "") -> str:
    """The end of a message on an unknown name: the one that was probably meant, or those that there are.

    Args:
        name: that there is not.
        names: that there are.
        lists: the command that lists all of them, where they may be too many for a message.
    """
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.5)
    if close:
        return f"; did you mean {close[0]}?"
    how = f"; {lists} lists them" if lists and len(names) > MOST_NAMED else ""
    return f"; valid: {some(names, MOST_NAMED)}{how}"
