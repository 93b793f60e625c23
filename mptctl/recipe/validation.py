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

# Recipe keys by the names that other programs use for them.
ALSO_CALLED = {
    "accumulation_steps": "optim.accumulate",
    "amp": "runtime.precision",
    "architecture": "model.arch",
    "augmentation": "data.transforms",
    "auto_augment": "data.transforms",
    "balanced": "data.sampling",
    "batch": "optim.batch_size",
    "bias": "method.k",
    "class_balanced": "data.sampling",
    "class_weight": "criterion.class_weights",
    "color_jitter": "data.transforms",
    "crop_pct": "data.eval_resize",
    "cut_mix": "data.cutmix",
    "cutmix_alpha": "data.cutmix",
    "cutmix_prob": "data.mix_probability",
    "drop_path_rate": "model.drop_path",
    "early_stopping": "optim.patience",
    "early_stopping_patience": "optim.patience",
    "ema_decay": "optim.ema",
    "eta_min": "optim.min_lr",
    "focal_gamma": "criterion.gamma",
    "freeze_backbone": "model.train",
    "grad_accumulation": "optim.accumulate",
    "gradient_accumulation_steps": "optim.accumulate",
    "gradient_clip": "optim.clip_grad_norm",
    "hflip": "data.flip",
    "image_resolution": "data.image_size",
    "img_size": "data.image_size",
    "input_size": "data.image_size",
    "label_smoothing": "criterion.smoothing",
    "lambda": "method.lam",
    "layer_lr_decay": "optim.layer_decay",
    "learning_rate": "optim.lr",
    "linear_probe": "model.train",
    "llrd": "optim.layer_decay",
    "loss": "criterion.name",
    "lr_backbone": "optim.layer_decay",
    "lr_base_scale": "optim.lr_scale",
    "lr_base_size": "optim.lr_for_batch",
    "lr_head": "optim.head_lr",
    "lr_min": "optim.min_lr",
    "max_epochs": "optim.epochs",
    "mix_up": "data.mixup",
    "mixup_alpha": "data.mixup",
    "mixup_prob": "data.mix_probability",
    "no_bias_decay": "optim.no_decay",
    "no_weight_decay": "optim.no_decay",
    "num_epochs": "optim.epochs",
    "num_workers": "data.threads",
    "optimizer": "optim.name",
    "oversample": "data.sampling",
    "pos_weight": "criterion.class_weights",
    "pretrain": "model.pretrained",
    "ra_magnitude": "data.transforms",
    "rand_augment": "data.transforms",
    "random_erase": "data.transforms",
    "random_erasing": "data.transforms",
    "reprob": "data.transforms",
    "resize": "data.eval_resize",
    "sampler": "data.sampling",
    "scheduler": "optim.schedule",
    "stochastic_depth": "model.drop_path",
    "sync_bn": "runtime.sync_batchnorm",
    "temperature": "method.tau",
    "trivial_augment": "data.transforms",
    "warmup": "optim.warmup_epochs",
    "wd": "optim.weight_decay",
    "weighted_sampler": "data.sampling",
    "workers": "data.threads",
}


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
    """Find the dotted keys whose last part, or whose name in another program, is `name`.

    If there is none, find those of the most similar such name; an empty list if no name is similar.

    >>> find_keys_by_name("learning_rate")
    ['optim.lr']
    """
    words: dict[str, list[str]] = {}
    for key in recipe_keys():
        words.setdefault(key.rpartition(".")[2], []).append(key)
    for foreign_name, key in ALSO_CALLED.items():
        words.setdefault(foreign_name, []).append(key)
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
