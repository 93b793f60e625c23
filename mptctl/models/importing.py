"""Makes a run folder of a model that was trained elsewhere."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from mptctl.errors import CheckpointError, UsageError, some
from mptctl.files import read_names
from mptctl.machine.device import choose_device
from mptctl.machine.facts import git_commit, versions
from mptctl.models.checkpoint import Checkpoint, CheckpointMeta, save_checkpoint
from mptctl.models.foreign_weights import (
    named_as,
    recipe_of_weights,
    refuse_other_count,
    refuse_other_weights,
    with_channels_turned,
)
from mptctl.models.networks import build_model, outline
from mptctl.models.ownership import Existing, left_alone, refuse_own_inputs
from mptctl.models.programs import TURNED, load_program, read_onnx_state
from mptctl.models.run_folder import RunDir
from mptctl.models.state_dict import load_weights, read_state_dict
from mptctl.names import Channels
from mptctl.recipe import ModelRecipe, Recipe
from mptctl.recipe.validation import differences

# Keys of a network that can be read off its weights.
TOLD = ("model.stem", "model.embedding_dim", "model.head")


def prepare_import(  # noqa: PLR0913  # one for each flag of `import`
    weights: Path,
    *,
    class_names: Sequence[str],
    recipe: Recipe,
    folder: Path,
    classes: Sequence[str] | None = None,
    num_old: int = 0,
    channels: Channels = "rgb",
    overwrite: bool = False,
    log: Callable[[str], None] = lambda text: None,
) -> Checkpoint:
    """Check a foreign model's weights against its architecture and class names; nothing is written.

    Args:
        weights: file with a state dict, or an ONNX model, whose ``model.arch`` is ``onnx``.
        class_names: in the order of the logits.
        recipe: its ``model.arch`` is the model's, its ``data`` group says how the model sees pictures.
        folder: the run folder to be written.
        classes: of the split, old ones first; None without a split: all are old, as those in production.
        num_old: how many of them are old.
        channels: order in which the model takes the channels of a picture.
        overwrite: a run may be in the folder.
        log: called with notes for the user.

    Returns:
        The checkpoint to be written, with the head and stem that the weights have.

    Raises:
        CheckpointError: the weights do not fit, or name classes that the split does not know.
        UsageError: the folder holds a run and is not to be overwritten, or it holds what is brought in; or
            the order of the channels cannot be turned.
    """
    refuse_own_inputs(folder, (weights,))
    RunDir(folder).refuse_unusable(_existing(overwrite))
    if classes is not None:
        _refuse_strangers(class_names, classes)
    if recipe.model.arch == "onnx":
        state = _asked_state(weights, class_names, recipe, channels)
    else:
        model, state = _fitting_state(weights, class_names, recipe, channels)
        other = differences(model, recipe.model, "model.")
        if changes := [f"{key}={json.dumps(now)}" for key, now, _ in other if key in TOLD]:
            log(f"as the weights have it: {' '.join(changes)}")
        recipe = recipe.model_copy(update={"model": model})
    old = set(class_names if classes is None else classes[:num_old])
    meta = CheckpointMeta(
        origin="imported",
        recipe=recipe,
        class_names=tuple(class_names),
        num_old=sum(name in old for name in class_names),
        split_fingerprint=None,
        versions=versions(),
        git_commit=git_commit(),
    )
    return Checkpoint(RunDir(folder).best, meta, state, None, "")


def write_import(
    checkpoint: Checkpoint,
    split_json: str | None = None,
    *,
    overwrite: bool = False,
    log: Callable[[str], None] = lambda text: None,
) -> Path:
    """Write the run folder of a model.

    Args:
        checkpoint: of `prepare_import`.
        split_json: content of the folder's ``split.json``; None without a split.
        overwrite: throw away the run that is in the folder; what no run wrote stays.
        log: called with what else the user should know.

    Returns:
        The checkpoint that was written.

    Raises:
        UsageError: the folder holds a run and is not to be overwritten.
        StorageError: there is no room for it; the run that was there stays.
    """
    run = RunDir(checkpoint.path.parent)
    with run.locked(_existing(overwrite)):
        # First, since a full disk has no room for it: the run that was there stays, or none is left.
        save_checkpoint(run.best, checkpoint.meta, checkpoint.model)
        if overwrite:
            for note in left_alone(run.empty(but=run.best)):
                log(note)
        run.write_start(checkpoint.meta.recipe.to_yaml(), split_json, choose_device("cpu"))
    return run.best


def _existing(overwrite: bool) -> Existing:
    return "replace" if overwrite else "refuse for good"


def _refuse_strangers(class_names: Sequence[str], classes: Sequence[str]) -> None:
    known = set(classes)
    unknown = [name for name in class_names if name not in known]
    if unknown:
        raise CheckpointError(
            f"--class-names: {some(unknown)} not among the split's classes; use their names as split.json "
            "has them"
        )


@torch.no_grad()
def _asked_state(
    weights: Path, class_names: Sequence[str], recipe: Recipe, channels: Channels
) -> dict[str, Tensor]:
    """Read an ONNX model as a state dict, and try it on two black pictures.

    Raises:
        CheckpointError: it takes no pictures of the recipe's size, or answers other classes.
    """
    state, _ = read_onnx_state(weights)
    if channels == "bgr":
        state[TURNED] = torch.ones(1)
    size = recipe.data.image_size
    logits = load_program("onnx", state, str(weights))(torch.zeros(2, 3, size, size))
    refuse_other_count(weights, logits.shape[1], len(class_names))
    return state


def _fitting_state(
    weights: Path, class_names: Sequence[str], recipe: Recipe, channels: Channels
) -> tuple[ModelRecipe, dict[str, Tensor]]:
    """Read the weights, and return the network that they fit and its state dict.

    Raises:
        CheckpointError: they do not fit the recipe's architecture.
    """
    arch, size = recipe.model.arch, recipe.data.image_size
    # By shapes first, since flags may ask for more than memory. An unknown network is said before its file is
    # read.
    default = ModelRecipe.model_validate({"arch": arch})
    plain = outline(default, len(class_names), size)
    saved = read_state_dict(weights)
    own = recipe_of_weights(saved, recipe.model, plain)
    outlined = plain if own == default else outline(own, len(class_names), size)
    state = named_as(outlined, arch, saved)
    refuse_other_weights(state, outlined, arch, weights, len(class_names))
    model = build_model(own, len(class_names), size)
    load_weights(model, with_channels_turned(model, state, weights) if channels == "bgr" else state)
    return own, model.state_dict()


def read_class_names(path: Path) -> list[str]:
    """Class names from a file, one a line.

    Raises:
        UsageError: it cannot be read, names no class, or one twice.
    """
    names = read_names(path.expanduser(), "--class-names")
    twice = sorted(name for name, count in Counter(names).items() if count > 1)
    if twice:
        raise UsageError(f"--class-names {path}: {some(twice)} stands there twice; every class has one line")
    return names
