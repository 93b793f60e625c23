"""Recipes as a whole: plain data made into one, its keys, and how two of them differ."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from mptctl.errors import UsageError
from mptctl.files.explained import explain, nearest
from mptctl.names import METHOD_NAMES
from mptctl.recipe.criterion import CriterionRecipe, refuse_idle
from mptctl.recipe.data import ROUNDING, SPEED
from mptctl.recipe.fields import MethodRecipe, Recipe

# Names that other programs give some of our keys.
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
    "crop_pct": "data.eval_crop",
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
    if "class_weights" in content:
        raise UsageError(
            "criterion.class_weights: names classes and counts of a split; give weights as the argument "
            "class_weights, a tensor of one per class"
        )
    recipe = _validated({"criterion": dict(content)}, f"criterion {content.get('name', '')}").criterion
    refuse_idle(recipe, content, f"criterion {recipe.name}")
    return recipe


def _validated(content: object, what: str) -> Recipe:
    try:
        return Recipe.model_validate(content)
    except ValidationError as error:
        raise UsageError(f"{what}: {explain(error, Recipe, _nearest_key)}") from error


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
    """Dotted keys that a word without its group stands for: the same, another program's, or one like it."""
    words: dict[str, list[str]] = {}
    for key in recipe_keys():
        words.setdefault(key.partition(".")[2], []).append(key)
    for other, key in ALSO_CALLED.items():
        words.setdefault(other, []).append(key)
    close = [name] if name in words else difflib.get_close_matches(name, words, n=1, cutoff=0.75)
    return words[close[0]] if close else []


def differences(one: BaseModel, other: BaseModel, prefix: str = "") -> list[tuple[str, Any, Any]]:
    """Field-by-field differences of two models of one type: dotted key, value of either."""
    found: list[tuple[str, Any, Any]] = []
    for key in type(one).model_fields:
        mine, theirs = getattr(one, key), getattr(other, key)
        if isinstance(mine, BaseModel) and isinstance(theirs, BaseModel):
            found += differences(mine, theirs, f"{prefix}{key}.")
        elif mine != theirs:
            found.append((f"{prefix}{key}", mine, theirs))
    return found


def batch_differences(one: Recipe, other: Recipe) -> list[tuple[str, Any, Any]]:
    """Differences that keep two runs on one split from learning from the same batches in one process."""
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
    """Dotted keys that may change between a run and its continuation: where and how fast it computes."""
    return frozenset(
        key for key, field in recipe_keys().items() if field.json_schema_extra in (SPEED, ROUNDING)
    )


def _nearest_key(key: str) -> str:
    """The end of a message on an unknown key: that name elsewhere, the most alike, or the groups."""
    group, dot, name = key.partition(".")
    keys = keys_called(name if dot else group)
    in_group = [each for each in keys if each.startswith(f"{group}.")]
    if keys:
        return f"; did you mean {' or '.join(in_group or keys)}?"
    return nearest(
        key, [each for each in recipe_keys() if each.startswith(f"{group}.")] or list(Recipe.model_fields)
    )
