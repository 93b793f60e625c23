"""Starts a model with weights from elsewhere: `model.pretrained`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mptctl.errors import CheckpointError, UsageError, some
from mptctl.models.checkpoint import checkpoint_in, is_checkpoint
from mptctl.models.foreign_weights import rename_weights
from mptctl.models.heads import find_classifier, find_head
from mptctl.models.networks import is_built_for_one_size
from mptctl.models.programs import read_safetensors
from mptctl.models.published import find_described
from mptctl.models.state_dict import load_safely, load_weights, read_state_dict, state_dict_in
from mptctl.models.timm_networks import TIMM
from mptctl.recipe import Recipe


class Source(NamedTuple):
    """Weights to begin with.

    Attributes:
        where: their name in messages.
        state: by the names of the program that saved them.
        class_names: in the order of their logits; None where they are not known.
        pictures: keys of the recipe's group `data` that they were trained with, as far as they are known.
    """

    where: str
    state: dict[str, Tensor]
    class_names: tuple[str, ...] | None = None
    pictures: Mapping[str, Any] = {}


def begin_with_pretrained(
    model: nn.Module, recipe: Recipe, pretrained: str, class_names: Sequence[str]
) -> list[str]:
    """Load the weights from elsewhere that fit; a classifier of other classes keeps its fresh weights.

    Args:
        model: in place, with fresh weights.
        recipe: of the model.
        pretrained: ``torchvision``, or a file or folder: a state dict, a published model, or a run of ours.
        class_names: of the model, in the order of its logits.

    Returns:
        Notes on the tensors taken and left, and a warning where the weights know another normalisation.

    Raises:
        UsageError: weights that are not there, or no weights.
        CheckpointError: weights that cannot be read, or that do not fit but for the head.
    """
    arch = recipe.model.arch
    source = _torchvision(arch) if pretrained == "torchvision" else _read(Path(pretrained).expanduser())
    state, own = rename_weights(model, arch, source.state), model.state_dict()
    head, classifier = find_head(model, arch)[0], find_classifier(model, arch).name
    same = source.class_names in (None, tuple(class_names))
    taken = {
        name: tensor
        for name, tensor in state.items()
        if name in own and tensor.shape == own[name].shape and (same or not name.startswith(f"{classifier}."))
    }
    new = [name for name in own if name not in taken and not name.endswith("drop_block.steps")]
    if missing := [name for name in new if not name.startswith(f"{head}.")]:
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
        *_warnings(source, recipe),
    ]


def _read(path: Path) -> Source:
    """Weights of a run of ours, of a published model, of an export, or weights alone.

    Raises:
        UsageError: an ONNX model.
        CheckpointError: there are none, or they cannot be read.
    """
    if path.suffix.lower() == ".onnx":
        raise UsageError(f"model.pretrained {path}: is an ONNX model, which is not trained; name its weights")
    file = path / "best.pt" if (path / "best.pt").is_file() else path
    if file.suffix == ".pt":
        content = load_safely(file)
        if is_checkpoint(content):
            checkpoint = checkpoint_in(content, file)
            data = checkpoint.meta.recipe.data
            seen = {"mean": data.mean, "std": data.std}
            return Source(str(path), checkpoint.model, checkpoint.meta.class_names, seen)
        if file == path:
            return Source(str(path), state_dict_in(content, path))
    said = find_described(path)
    if said is not None:
        return Source(str(path), read_state_dict(said.weights), said.class_names, said.data)
    if path.suffix.lower() != ".safetensors":
        return Source(str(path), read_state_dict(path))
    state, meta = read_safetensors(path)
    if meta is None:
        return Source(str(path), state)
    return Source(str(path), state, meta.class_names, meta.preprocessing.recipe_keys())


def _warnings(source: Source, recipe: Recipe) -> list[str]:
    """A warning where the weights were trained with another normalisation than the recipe's."""
    other = [
        f"data.{key}={list(source.pictures[key])}"
        for key in ("mean", "std")
        if key in source.pictures and tuple(source.pictures[key]) != getattr(recipe.data, key)
    ]
    if not other:
        return []
    return [
        f"warning: {source.where} was trained with {' and '.join(other)}, and this recipe has other values"
    ]


def _torchvision(arch: str) -> Source:
    if arch.startswith(TIMM):
        raise UsageError(
            f"model.pretrained torchvision: has no weights for {arch}; name a file with a state dict"
        )
    from torchvision.models import get_model_weights

    weights = get_model_weights(arch)
    chosen = weights.DEFAULT if hasattr(weights, "DEFAULT") else None
    if chosen is None:
        raise UsageError(f"model.pretrained torchvision: there are no weights for {arch}")
    path = Path(torch.hub.get_dir()) / "checkpoints" / os.path.basename(chosen.url)
    if not path.is_file():
        raise UsageError(
            f"model.pretrained torchvision: {path} is not there and nothing is downloaded in training; "
            f"fetch {chosen.url} into that folder, or name a local file"
        )
    return Source(f"torchvision's weights of {arch}", read_state_dict(path))
