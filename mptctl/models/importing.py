"""Reads a model that was trained elsewhere, as `import` brings it in."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from mptctl.errors import CheckpointError, NonFiniteError, UsageError, some
from mptctl.evaluation.reading.logits import first_maximum
from mptctl.files import read_names
from mptctl.models.foreign_weights import (
    infer_model_recipe,
    refuse_other_class_count,
    refuse_unfit_weights,
    rename_weights,
    turn_channels,
)
from mptctl.models.networks import build_model, build_outline
from mptctl.models.onnx_program import read_onnx
from mptctl.models.programs import ONNX, TAKES_BGR, load_program
from mptctl.models.state_dict import load_weights, read_state_dict
from mptctl.names import Channels
from mptctl.recipe import ModelRecipe, Recipe
from mptctl.recipe.validation import differences

# Recipe keys whose values follow from the weights.
READ_FROM_WEIGHTS = ("model.stem", "model.embedding_dim", "model.head")


class ForeignModel(NamedTuple):
    """A model that was trained elsewhere.

    Attributes:
        recipe: with the head and stem that the weights have.
        weights: state dict, by the names of its network.
        notes: one where head or stem are not those of the recipe that was given.
    """

    recipe: Recipe
    weights: dict[str, Tensor]
    notes: list[str]


def read_foreign_model(
    weights: Path, class_names: Sequence[str], recipe: Recipe, channels: Channels = "rgb"
) -> ForeignModel:
    """Read a model that was trained elsewhere, and check it against its architecture and class names.

    Args:
        weights: a file with a state dict; an ONNX model if the recipe's ``model.arch`` is ``onnx``.
        class_names: in the order of the logits.
        recipe: ``model.arch`` names the model's architecture, the ``data`` group describes its pictures.
        channels: order in which the model takes the channels of a picture.

    Raises:
        CheckpointError: the weights do not fit.
        NonFiniteError: weights, or logits of an ONNX model, are NaN or infinite.
        UsageError: the model cannot be changed from BGR to RGB.
    """
    if recipe.model.arch == ONNX:
        return ForeignModel(recipe, _read_onnx_weights(weights, class_names, recipe, channels), [])
    model, state = _read_fitting_weights(weights, class_names, recipe, channels)
    changed = differences(model, recipe.model, "model.")
    settings = [f"{key}={json.dumps(now)}" for key, now, _ in changed if key in READ_FROM_WEIGHTS]
    notes = [f"as the weights have it: {' '.join(settings)}"] if settings else []
    return ForeignModel(recipe.model_copy(update={"model": model}), state, notes)


@torch.no_grad()
def _read_onnx_weights(
    weights: Path, class_names: Sequence[str], recipe: Recipe, channels: Channels
) -> dict[str, Tensor]:
    """Read an ONNX model as a state dict, after a trial run on four pictures of noise.

    Raises:
        CheckpointError: the model takes no pictures of the recipe's size, has another number of classes, or
            answers in probabilities.
        NonFiniteError: logits are NaN or infinite.
    """
    # `find_described` decides whether a changed export may be imported.
    state, _ = read_onnx(weights, allow_changed=True)
    if channels == "bgr":
        state[TAKES_BGR] = torch.ones(1)
    size = recipe.data.image_size
    pictures = torch.randn(4, 3, size, size, generator=torch.Generator().manual_seed(0))
    logits = load_program(state, str(weights))(pictures)
    refuse_other_class_count(weights, logits.shape[1], len(class_names))
    first_maximum(logits.numpy(), str(weights))
    if bool((logits >= 0).all() and ((logits.sum(dim=1) - 1).abs() < 1e-3).all()):
        raise CheckpointError(
            f"{weights}: its outputs are probabilities (rows add up to 1); export it without its softmax, to "
            "logits"
        )
    return state


def _read_fitting_weights(
    weights: Path, class_names: Sequence[str], recipe: Recipe, channels: Channels
) -> tuple[ModelRecipe, dict[str, Tensor]]:
    """Read weights; return the network recipe that they fit, and the state dict by its names, in RGB.

    Raises:
        CheckpointError: the weights do not fit the recipe's architecture.
        NonFiniteError: a weight is NaN or infinite.
    """
    arch, size = recipe.model.arch, recipe.data.image_size
    # Shapes are compared before the network is built: it may be too large for memory. The outline comes
    # before reading, so that an unknown architecture is an error at once.
    default = ModelRecipe.model_validate({"arch": arch, "settings": recipe.model.settings})
    plain = build_outline(default, len(class_names), size)
    saved = read_state_dict(weights)
    inferred = infer_model_recipe(saved, recipe.model, plain)
    outline = plain if inferred == default else build_outline(inferred, len(class_names), size)
    state = rename_weights(outline, arch, saved)
    refuse_unfit_weights(state, outline, arch, weights, len(class_names))
    model = build_model(inferred, len(class_names), size)
    load_weights(model, turn_channels(model, state, weights) if channels == "bgr" else state)
    loaded = model.state_dict()
    unsound = [name for name, tensor in loaded.items() if not tensor.isfinite().all()]
    if unsound:
        raise NonFiniteError(f"{weights}: {some(unsound)}: NaN or infinite numbers; name sound weights")
    return inferred, loaded


def read_class_names(path: Path) -> list[str]:
    """Read class names from a file, one a line.

    Raises:
        UsageError: the file cannot be read, or names no class, or names a class twice.
    """
    names = read_names(path.expanduser(), "--class-names")
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise UsageError(f"--class-names {path}: {some(twice)} stands there twice; every class has one line")
    return names
