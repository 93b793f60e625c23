"""Weights that another program saved, under the names that a network has here."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from torch import Tensor, nn

from mptctl.errors import CheckpointError, UsageError, some
from mptctl.models.heads import find_classifier, find_head
from mptctl.recipe import ModelRecipe


def named_as(model: nn.Module, arch: str, state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Rename foreign weights to the names of a network, where the two correspond.

    A prefix of a module of Lightning or a wrapper of transformers is removed. Where everything but the
    classifier fits, a linear layer of another name becomes it: ``fc.1`` of a `Sequential` with dropout, which
    answers the same in evaluation.

    Args:
        model: the network, of which only names and shapes are read.
        arch: its name.
        state: by the names of the program that saved it.
    """
    own = model.state_dict()
    if not any(name in own for name in state):
        first = next(iter(own))
        prefix = next((name.removesuffix(first) for name in state if name.endswith(f".{first}")), "")
        state = {name.removeprefix(prefix): tensor for name, tensor in state.items()}
    classifier = find_classifier(model, arch)
    weight, bias = f"{classifier.name}.weight", f"{classifier.name}.bias"
    extra = [name for name in state if name not in own]
    if not own.keys() - state.keys() <= {weight, bias} or weight in state or not extra:
        return dict(state)
    there = extra[0].rpartition(".")[0]
    layer = {name.removeprefix(f"{there}."): state[name] for name in extra}
    rows = layer.get("weight")
    if rows is None or layer.keys() - {"weight", "bias"} or rows.shape[1:] != (classifier.layer.in_features,):
        return dict(state)
    named = {name: tensor for name, tensor in state.items() if name in own}
    return named | {weight: rows, bias: layer.get("bias", rows.new_zeros(len(rows)))}


def recipe_of_weights(state: Mapping[str, Tensor], recipe: ModelRecipe, plain: nn.Module) -> ModelRecipe:
    """The recipe of an architecture with the head and the stem that its weights have.

    Args:
        state: of the whole model.
        recipe: names the architecture, and which head it is if that has a scale.
        plain: the architecture with its default head and stem, of which only shapes are read.
    """
    named = named_as(plain, recipe.arch, state)
    head = find_head(plain, recipe.arch)[0]
    kept: dict[str, object] = {"arch": recipe.arch}
    both = f"{head}.0.weight", f"{head}.1.weight"
    if all(name in named and named[name].ndim == 2 for name in both):  # no layer stands between the two
        kept["embedding_dim"] = len(named[both[0]])
    if f"{head}.scale" in named or f"{head}.1.scale" in named:
        kept |= {"head": recipe.head, "head_scale": recipe.head_scale}
    first = named.get("conv1.weight")
    if first is not None and first.shape[1:] == (3, 3, 3) != plain.state_dict()["conv1.weight"].shape[1:]:
        kept["stem"] = "small"
    return ModelRecipe.model_validate(kept)


def refuse_other_weights(
    state: Mapping[str, Tensor], model: nn.Module, arch: str, path: Path, num_classes: int
) -> None:
    """Refuse weights that are not those of a network, by names and shapes.

    Args:
        state: as `named_as` names it.
        model: the network.
        arch: its name.
        path: of the weights, for the message.
        num_classes: that the user names.

    Raises:
        CheckpointError: they answer other classes, or do not fit.
    """
    own = model.state_dict()
    classifier, head = find_classifier(model, arch).name, find_head(model, arch)[0]
    rows = state.get(f"{classifier}.weight")
    if rows is not None and rows.ndim == 2:
        refuse_other_count(path, len(rows), num_classes)
    unlike = [name for name in own if name not in state or state[name].shape != own[name].shape]
    extra = [name for name in state if name not in own]
    if not unlike and not extra:
        return
    body = {name.partition(".")[0] for name in own if not name.startswith(f"{head}.")}
    fits_body = not any(name.partition(".")[0] in body for name in extra)
    if fits_body and all(name.startswith(f"{head}.") for name in unlike):
        has = f"has {some(extra)}" if extra else f"has no {some(unlike)}"
        raise CheckpointError(
            f"{path}: fits --arch {arch} but for its head: {has}, where one linear layer is wanted, {head}; "
            "export the model to ONNX and import that, or train a new head on these weights with "
            f"--set model.pretrained={path}"
        )
    raise CheckpointError(
        f"{path}: does not fit --arch {arch}: {some([*unlike, *extra])}; name the architecture that it was "
        "made with"
    )


def refuse_other_count(path: Path, answers: int, named: int) -> None:
    """Raise CheckpointError where a model does not answer as many classes as are named."""
    if answers != named:
        raise CheckpointError(
            f"{path}: answers {answers} classes, --class-names names {named}; name them all, in order"
        )


def with_channels_turned(model: nn.Module, state: Mapping[str, Tensor], path: Path) -> dict[str, Tensor]:
    """The weights of a model that takes pictures in BGR as those of one that takes them in RGB.

    Args:
        model: the network.
        state: its weights.
        path: of the weights, for the message.

    Raises:
        UsageError: the network does not begin with a convolution of three channels.
    """
    convolutions = [(name, module) for name, module in model.named_modules() if isinstance(module, nn.Conv2d)]
    if not convolutions or convolutions[0][1].in_channels != 3:
        raise UsageError(
            f"{path}: --channels bgr: no convolution of three channels begins its network; "
            "export it to ONNX and import that"
        )
    first = f"{convolutions[0][0]}.weight"
    return {**state, first: state[first].flip(1)}
