"""Builds a model before its first step: with the weights of a teacher, with pretrained ones, or fresh."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mptctl.errors import CheckpointError, UsageError, some
from mptctl.models.checkpoint import Checkpoint, is_checkpoint, load_checkpoint, verify_checkpoint
from mptctl.models.foreign_weights import rename_weights
from mptctl.models.heads import find_classifier, find_head
from mptctl.models.networks import build_model, is_built_for_one_size
from mptctl.models.programs import read_safetensors
from mptctl.models.published import find_described
from mptctl.models.state_dict import (
    find_state_dict,
    fit_weights,
    load_safely,
    load_weights,
    read_state_dict,
)
from mptctl.models.timm_networks import TIMM
from mptctl.recipe import Recipe
from mptctl.recipe.reading import SAME_NETWORK


class PretrainedWeights(NamedTuple):
    """Weights from elsewhere, and what is known of them.

    Attributes:
        where: name of the weights in messages.
        state: state dict, by the names of the program that saved it.
        class_names: in the order of the logits; None if unknown.
        pictures: values of the recipe's group `data` in their training, as far as they are known.
    """

    where: str
    state: dict[str, Tensor]
    class_names: tuple[str, ...] | None = None
    pictures: Mapping[str, Any] = {}


def build_initial_model(
    recipe: Recipe, class_names: Sequence[str], teacher: Path | None
) -> tuple[nn.Module, list[str]]:
    """Build the model before its first step, on the CPU, and return it with notes on its pretrained weights.

    Args:
        recipe: of the run.
        class_names: the model's classes, in the order of its logits.
        teacher: checkpoint of the teacher whose weights the model begins with (``method.init``); None:
            pretrained ones (``model.pretrained``), or random ones.

    Raises:
        UsageError: an unknown architecture, or another one than the teacher's.
        CheckpointError: weights that do not fit.
    """
    source = None if teacher is None else load_checkpoint(teacher)
    if source is not None:
        _refuse_other_network(source, recipe)
    model = build_model(recipe.model, len(class_names), recipe.data.image_size)
    if source is not None:
        _copy_weights(model, source, class_names, recipe.model.arch)
    elif recipe.model.pretrained is not None:
        return model, load_pretrained(model, recipe, recipe.model.pretrained, class_names)
    return model, []


@torch.no_grad()
def _copy_weights(model: nn.Module, source: Checkpoint, class_names: Sequence[str], arch: str) -> None:
    """Copy weights and batch statistics of a checkpoint into a model, in place.

    Classifier rows are matched by class name; rows of classes that the checkpoint does not know stay.

    Args:
        model: a network with fresh weights.
        source: the checkpoint to copy, of the same network.
        class_names: the model's classes, in the order of its logits.
        arch: the network's name.
    """
    classifier = find_classifier(model, arch).name
    source_rows = {name: row for row, name in enumerate(source.meta.class_names)}
    rows = [row for row, name in enumerate(class_names) if name in source_rows]
    matching_rows = [source_rows[class_names[row]] for row in rows]
    for key, tensor in model.state_dict().items():
        if key in (f"{classifier}.weight", f"{classifier}.bias"):
            tensor[rows] = source.model[key][matching_rows].to(tensor.device)
        elif not key.endswith("drop_block.steps"):  # DropBlock counts this run's steps
            tensor.copy_(source.model[key])


def _refuse_other_network(source: Checkpoint, recipe: Recipe) -> None:
    """Raise UsageError if a checkpoint's recipe differs from another in a key of `SAME_NETWORK`."""
    for key in SAME_NETWORK:
        was, now = attrgetter(key)(source.meta.recipe), attrgetter(key)(recipe)
        if was != now:
            raise UsageError(
                f"method.init {recipe.method.init}: {source.path} has {key} {was}, this recipe {now}; set "
                f"{key} as that model has it, or method.init=fresh"
            )


def load_pretrained(
    model: nn.Module, recipe: Recipe, pretrained: str, class_names: Sequence[str]
) -> list[str]:
    """Load pretrained weights into a model, in place.

    The head keeps its fresh weights where shapes differ; the classifier also where class names differ.

    Args:
        model: a network with fresh weights.
        recipe: the model's recipe.
        pretrained: ``torchvision``, or the path of a state dict, a published model or a run of mptctl's.
        class_names: the model's classes, in the order of its logits.

    Returns:
        Notes for the user: tensors that were loaded, made new and left out, and a warning if the weights were
        trained with another normalisation.

    Raises:
        UsageError: there are no such weights, or they are an ONNX model.
        CheckpointError: the weights cannot be read, or do not fit the network before its head.
    """
    arch = recipe.model.arch
    is_torchvision = pretrained == "torchvision"
    source = _read_torchvision(arch) if is_torchvision else _read_path(Path(pretrained).expanduser())
    state = rename_weights(model, arch, source.state)
    own = model.state_dict()
    taken = fit_weights(own, state).taken
    if source.class_names not in (None, tuple(class_names)):
        classifier = find_classifier(model, arch).name
        taken = {name: tensor for name, tensor in taken.items() if not name.startswith(f"{classifier}.")}
    new = [name for name in own if name not in taken and not name.endswith("drop_block.steps")]
    head = find_head(model, arch)[0]
    missing = [name for name in new if not name.startswith(f"{head}.")]
    if missing:
        size = " and the data.image_size" if is_built_for_one_size(arch) else ""
        raise CheckpointError(
            f"{source.where}: does not fit model.arch {arch}: missing or of another shape: {some(missing)}; "
            f"name the architecture{size} that the file was made with"
        )
    load_weights(model, taken, strict=False)
    left = [name for name in state if name not in taken]
    return [
        f"begins with {source.where}: {len(taken)} of {len(own)} tensors, "
        f"{sum(tensor.numel() for tensor in taken.values()):,} numbers",
        f"made new: {some(new) or 'nothing'}; left out of the file: {some(left) or 'nothing'}",
        *_warn_of_normalisation(source, recipe),
    ]


def _read_path(path: Path) -> PretrainedWeights:
    """Read the weights of a run or checkpoint of mptctl's, a published model, an export, or a state dict.

    Raises:
        UsageError: the file is an ONNX model.
        CheckpointError: there are no weights, or they cannot be read.
    """
    if path.suffix.lower() == ".onnx":
        raise UsageError(f"model.pretrained {path}: is an ONNX model, which is not trained; name its weights")
    file = path / "best.pt" if (path / "best.pt").is_file() else path
    if file.suffix == ".pt":
        content = load_safely(file)
        if is_checkpoint(content):
            checkpoint = verify_checkpoint(content, file)
            data = checkpoint.meta.recipe.data
            pictures = {"mean": data.mean, "std": data.std}
            return PretrainedWeights(str(path), checkpoint.model, checkpoint.meta.class_names, pictures)
        if file == path:
            return PretrainedWeights(str(path), find_state_dict(content, path))
    hub = find_described(path)
    if hub is not None:
        return PretrainedWeights(str(path), read_state_dict(hub.weights), hub.class_names, hub.data)
    if path.suffix.lower() != ".safetensors":
        return PretrainedWeights(str(path), read_state_dict(path))
    state, meta = read_safetensors(path)
    if meta is None:
        return PretrainedWeights(str(path), state)
    return PretrainedWeights(str(path), state, meta.class_names, meta.preprocessing.recipe_keys())


def _warn_of_normalisation(source: PretrainedWeights, recipe: Recipe) -> list[str]:
    """A list with a warning if weights were trained with other mean or std than the recipe's; else empty."""
    differing = [
        f"data.{key}={list(source.pictures[key])}"
        for key in ("mean", "std")
        if key in source.pictures and tuple(source.pictures[key]) != getattr(recipe.data, key)
    ]
    if not differing:
        return []
    return [
        f"warning: {source.where} was trained with {' and '.join(differing)}, and this recipe has other "
        "values"
    ]


def _read_torchvision(arch: str) -> PretrainedWeights:
    """Read torchvision's default weights of a network from torch's download folder; download nothing.

    Raises:
        UsageError: torchvision has no weights for the network, or they are not in the folder.
        CheckpointError: they cannot be read.
    """
    if arch.startswith(TIMM):
        raise UsageError(
            f"model.pretrained torchvision: has no weights for {arch}; name a file with a state dict"
        )
    from torchvision.models import get_model_weights

    weights = get_model_weights(arch)
    if not hasattr(weights, "DEFAULT"):
        raise UsageError(f"model.pretrained torchvision: there are no weights for {arch}")
    url = weights.DEFAULT.url
    path = Path(torch.hub.get_dir()) / "checkpoints" / os.path.basename(url)
    if not path.is_file():
        raise UsageError(
            f"model.pretrained torchvision: {path} is not there and nothing is downloaded in training; "
            f"fetch {url} into that folder, or name a local file"
        )
    return PretrainedWeights(f"torchvision's weights of {arch}", read_state_dict(path))
