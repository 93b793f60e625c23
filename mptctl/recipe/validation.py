"""Validates recipes, lists and suggests their keys, and compares two recipes."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from mptctl.errors import UsageError
from mptctl.files.explained import explain, nearest, shown_value
from mptctl.recipe.criterion import CriterionRecipe, refuse_unused_settings
from mptctl.recipe.data import ROUNDING, SPEED, DataRecipe
from mptctl.recipe.fields import MethodRecipe, Recipe
from mptctl.recipe.own import KEYS, Kind, find_own, refuse_unknown, registered


def validate_recipe(content: object, where: str, *, of_run: bool = False) -> Recipe:
    """Validate plain data as a recipe; keys that are missing get their defaults.

    Args:
        content: nested mappings of plain values.
        where: name of the recipe in messages.
        of_run: a run has the recipe already, so that parts of one's own need not be there.

    Raises:
        UsageError: names the first problem: key, what is expected, the value, and the nearest valid name.
    """
    recipe = _validate(content, f"recipe {where}")
    return recipe if of_run else with_own_settings(recipe, f"recipe {where}")


def with_own_settings(recipe: Recipe, where: str) -> Recipe:
    """Return a recipe with the settings of its own method, criterion and network, defaults included.

    Raises:
        UsageError: the method or the criterion is unknown; a setting is not valid; settings stand beside a
            part of ours; or a method of one's own, which computes the whole loss, stands beside a criterion.
    """
    changed: dict[str, Any] = {}
    for kind, key in KEYS.items():
        group_name, _, field = key.partition(".")
        group = getattr(recipe, group_name)
        name = getattr(group, field)
        if kind != "network":  # ours are known to torchvision and timm
            refuse_unknown(kind, name, f"{where}: {key}: no such value: {shown_value(name)}")
        part = find_own(kind, name)
        if part is not None:
            settings = part.read_settings(group.settings, f"{where}: {group_name}.settings")
            changed[group_name] = group.model_copy(update={"settings": settings})
        elif group.settings:
            raise UsageError(
                f"{where}: {group_name}.settings: are of a {kind} of one's own, and {key} is {name}; leave "
                "them out"
            )
    own = find_own("method", recipe.method.name)
    for key, is_set in (
        (f"criterion.name {recipe.criterion.name}", recipe.criterion.name != "ce"),
        ("criterion.class_weights", recipe.criterion.class_weights is not None),
        (f"model.head_margin {recipe.model.head_margin:g}", bool(recipe.model.true_class_margin)),
    ):
        if own is not None and is_set:
            raise UsageError(f"{where}: {key}: {own.name} computes its whole loss by itself; leave it out")
    return recipe.model_copy(update=changed)


def validate_method(content: Mapping[str, Any]) -> MethodRecipe:
    """Validate the name and settings of a method as the group `method` of a recipe.

    Raises:
        UsageError: the name is missing or unknown, a setting is unknown, or a value is out of range.
    """
    name = content.get("name", "")
    refuse_unknown("method", str(name))
    where = f"method {name}"
    return with_own_settings(_validate({"method": _as_group("method", content)}, where), where).method


def validate_criterion(content: Mapping[str, Any]) -> CriterionRecipe:
    """Validate the name and parameters of a criterion as the group `criterion` of a recipe.

    Raises:
        UsageError: a name or parameter is unknown, a value is out of range, a parameter belongs to another
            criterion, or ``class_weights`` is given.
    """
    if "class_weights" in content:
        raise UsageError(
            "criterion.class_weights: names classes and counts of a split; give weights as the argument "
            "class_weights, a tensor of one per class"
        )
    where, group = f"criterion {content.get('name', '')}", _as_group("criterion", content)
    recipe = with_own_settings(_validate({"criterion": group}, where), where).criterion
    refuse_unused_settings(recipe, content, f"criterion {recipe.name}")
    return recipe


def _as_group(kind: Kind, content: Mapping[str, Any]) -> dict[str, Any]:
    """Name and settings as a group of a recipe, where settings of one's own stand by themselves."""
    settings = dict(content)
    name = settings.pop("name", "")
    if find_own(kind, str(name)) is None:
        return dict(content)
    return {"name": name, "settings": settings.pop("settings", {}) | settings}


def _validate(content: object, what: str) -> Recipe:
    """Validate plain data as a recipe; raise UsageError that begins with ``what``."""
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        raise UsageError(f"{what}: {explain(error, Recipe, _suggest_key)}") from error


def recipe_keys() -> dict[str, Any]:
    """Every dotted key of a recipe with its pydantic field; settings of one's own parts are last."""
    groups = {name: field.annotation for name, field in Recipe.model_fields.items()}
    keys = {
        f"{group}.{key}": field
        for group, model in groups.items()
        if isinstance(model, type) and issubclass(model, BaseModel)
        for key, field in model.model_fields.items()
        if key != "settings"
    }
    for own in registered():
        group = KEYS[own.kind].partition(".")[0]
        keys |= {f"{group}.settings.{key}": field for key, field in own.settings.model_fields.items()}
    return keys


def find_keys_by_name(name: str) -> list[str]:
    """Find the dotted keys whose last part is `name`.

    If there is none, find those of the most similar name; an empty list if no name is similar.

    >>> find_keys_by_name("epoch")
    ['optim.epochs']
    """
    words: dict[str, list[str]] = {}
    for key in recipe_keys():
        words.setdefault(key.rpartition(".")[2], []).append(key)
    close = [name] if name in words else difflib.get_close_matches(name, words, n=1, cutoff=0.75)
    return words[close[0]] if close else []


def differences(one: BaseModel, other: BaseModel, prefix: str = "") -> list[tuple[str, Any, Any]]:
    """List the differing fields of two models of one type: dotted key, value in ``one``, value in ``other``.

    Args:
        one, other: the models; nested models are compared field by field.
        prefix: put before each key.
    """
    differing: list[tuple[str, Any, Any]] = []
    for key in type(one).model_fields:
        value, other_value = getattr(one, key), getattr(other, key)
        if key == "settings":
            names = dict.fromkeys([*value, *other_value])
            differing += [
                (f"{prefix}{key}.{name}", value.get(name), other_value.get(name))
                for name in names
                if value.get(name) != other_value.get(name)
            ]
        elif isinstance(value, BaseModel) and isinstance(other_value, BaseModel):
            differing += differences(value, other_value, f"{prefix}{key}.")
        elif value != other_value:
            differing.append((f"{prefix}{key}", value, other_value))
    return differing


def list_marked_data_keys(mark: dict[str, Any]) -> set[str]:
    """The keys of `data` with a mark: ``SPEED``, ``ROUNDING`` or ``TRAINING`` of `mptctl.recipe.data`."""
    return {key for key, field in DataRecipe.model_fields.items() if field.json_schema_extra == mark}


def list_changeable_keys() -> frozenset[str]:
    """List the dotted keys that may change when a run is resumed: those marked ``SPEED`` or ``ROUNDING``."""
    return frozenset(
        key for key, field in recipe_keys().items() if field.json_schema_extra in (SPEED, ROUNDING)
    )


def _suggest_key(unknown: str) -> str:
    """End of a message on an unknown key: keys of a similar name, else what keys or groups there are.

    Of both, keys of the same group are preferred.
    """
    group, _, name = unknown.partition(".")
    similar = find_keys_by_name(name or unknown)
    if similar:
        similar_in_group = [key for key in similar if key.startswith(f"{group}.")]
        return f"; did you mean {' or '.join(similar_in_group or similar)}?"
    all_in_group = [key for key in recipe_keys() if key.startswith(f"{group}.")]
    return nearest(unknown, all_in_group or list(Recipe.model_fields))
