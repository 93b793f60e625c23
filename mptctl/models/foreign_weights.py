"""Fits weights that another program saved to a network here: names, head, stem, order of channels."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor, nn

from mptctl.errors import CheckpointError, UsageError, some
from mptctl.models.heads import find_classifier, find_head
from mptctl.models.state_dict import fit_weights
from mptctl.recipe import ModelRecipe


def rename_weights(model: nn.Module, arch: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename foreign weights to a network's names as far as they correspond; other names stay.

    A prefix before all names is removed, as modules of Lightning and wrappers of transformers add. If only
    the classifier is missing and one linear layer of matching width is left over, that layer becomes the
    classifier: for example ``fc.1`` of a `Sequential` with dropout. The classifier's missing bias becomes
    zeros, as do missing counts of batches.

    Args:
        model: the network; only its names and shapes are read.
        arch: its architecture's name.
        state: weights by the names of the program that saved them.
    """
    own = model.state_dict()
    if not any(name in own for name in state):
        state = _without_prefix(state, next(iter(own)))
    # No prediction depends on the number of batches that a batch norm has seen.
    counts = [name for name in own if name.endswith("num_batches_tracked")]
    named = dict.fromkeys(counts, torch.tensor(0)) | dict(state)
    classifier = find_classifier(model, arch)
    weight, bias = f"{classifier.name}.weight", f"{classifier.name}.bias"
    extra = [name for name in named if name not in own]
    if extra and weight not in named and own.keys() - named.keys() <= {weight, bias}:
        extra_module = extra[0].rpartition(".")[0]
        layer = {name.removeprefix(f"{extra_module}."): named[name] for name in extra}
        width = classifier.layer.in_features
        is_linear = "weight" in layer and layer["weight"].shape[1:] == (width,)
        if is_linear and layer.keys() <= {"weight", "bias"}:
            body = {name: tensor for name, tensor in named.items() if name in own}
            named = body | {f"{classifier.name}.{part}": tensor for part, tensor in layer.items()}
    if weight in named and bias in own and bias not in named:
        named[bias] = named[weight].new_zeros(named[weight].shape[:1])
    return named


def _without_prefix(state: Mapping[str, Tensor], own_name: str) -> dict[str, Tensor]:
    """Remove from all names the prefix that stands before ``own_name`` in one of them.

    Without one, all names stay. A name whose rest is another tensor's name stays.
    """
    prefix = next((name.removesuffix(own_name) for name in state if name.endswith(f".{own_name}")), "")
    rests = {name: name.removeprefix(prefix) for name in state}
    return {name if rests[name] in state else rests[name]: tensor for name, tensor in state.items()}


def infer_model_recipe(state: Mapping[str, Tensor], recipe: ModelRecipe, plain: nn.Module) -> ModelRecipe:
    """Infer embedding, head and stem from foreign weights; return a recipe of the architecture with them.

    Args:
        state: weights of the whole model.
        recipe: names the architecture. If the weights hold a scale, the head's kind and scale are taken from
            here, since weights cannot tell a cosine head from a linear one with margin.
        plain: the architecture with its default head and stem; only its names and shapes are read.
    """
    named = rename_weights(plain, recipe.arch, state)
    head = find_head(plain, recipe.arch)[0]
    fields: dict[str, object] = {"arch": recipe.arch, "settings": recipe.settings}
    embedding, rows = named.get(f"{head}.0.weight"), named.get(f"{head}.1.weight")
    if embedding is not None and rows is not None and embedding.ndim == rows.ndim == 2:
        fields["embedding_dim"] = len(embedding)
    if f"{head}.scale" in named or f"{head}.1.scale" in named:
        fields |= {"head": recipe.head, "head_scale": recipe.head_scale}
    stem = named.get("conv1.weight")
    has_small_stem = stem is not None and stem.shape[1:] == (3, 3, 3)
    if has_small_stem and plain.state_dict()["conv1.weight"].shape[1:] != (3, 3, 3):
        fields["stem"] = "small"
    return ModelRecipe.model_validate(fields)


def refuse_unfit_weights(
    state: Mapping[str, Tensor], model: nn.Module, arch: str, path: Path, num_classes: int
) -> None:
    """Refuse weights whose names or shapes are not those of a network.

    Args:
        state: weights as returned by `rename_weights`.
        model: the network.
        arch: its architecture's name, for the message.
        path: of the weights, for the message.
        num_classes: number of class names that the user gives.

    Raises:
        CheckpointError: the weights have another number of classes, or do not fit.
    """
    own = model.state_dict()
    classifier, head = find_classifier(model, arch).name, find_head(model, arch)[0]
    rows = state.get(f"{classifier}.weight")
    if rows is not None and rows.ndim == 2:
        refuse_other_class_count(path, len(rows), num_classes)
    fit = fit_weights(own, state)
    if not fit.unlike:
        return
    extra = [name for name in fit.left if name not in own]
    body = {name.partition(".")[0] for name in own if not name.startswith(f"{head}.")}
    fits_body = not any(name.partition(".")[0] in body for name in extra)
    if fits_body and all(name.startswith(f"{head}.") for name in fit.missing):
        if not fit.missing:
            raise CheckpointError(
                f"{path}: fits --arch {arch}, but holds {some(extra)} too; save the network's weights alone"
            )
        has = f"has {some(extra)}" if extra else f"has no {some(fit.missing)}"
        raise CheckpointError(
            f"{path}: fits --arch {arch} but for its head: {has}, where one linear layer is wanted, {head}; "
            "export the model to ONNX and import that, or train a new head on these weights with "
            f"--set model.pretrained={path}"
        )
    raise CheckpointError(
        f"{path}: does not fit --arch {arch}: {some(fit.unlike)}; name the architecture that it was made with"
    )


def refuse_other_class_count(path: Path, num_logits: int, num_named: int) -> None:
    """Raise CheckpointError if a model has another number of logits than the user names classes."""
    if num_logits != num_named:
        raise CheckpointError(
            f"{path}: answers {num_logits} classes, --class-names names {num_named}; name them all, in order"
        )


def turn_channels(model: nn.Module, state: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """Return weights of a BGR model changed to take RGB: the first convolution's input channels are reversed.

    Args:
        model: the network; not changed.
        state: its weights; not changed.
        path: of the weights, for the message.

    Raises:
        UsageError: the network's first convolution does not take three channels, or there is none.
    """
    convolutions = {name: module for name, module in model.named_modules() if isinstance(module, nn.Conv2d)}
    first = next(iter(convolutions), None)
    if first is None or convolutions[first].in_channels != 3:
        raise UsageError(
            f"{path}: --channels bgr: no convolution of three channels begins its network; "
            "export it to ONNX and import that"
        )
    weight = f"{first}.weight"
    return {**state, weight: state[weight].flip(1)}
