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
from mptctl.machine.facts import git_commit, versions
from mptctl.models.checkpoint import Checkpoint, CheckpointMeta
from mptctl.models.foreign_weights import (
    infer_model_recipe,
    refuse_other_class_count,
    refuse_unfit_weights,
    rename_weights,
    turn_channels,
)
from mptctl.models.networks import build_model, build_outline
from mptctl.models.onnx_program import read_onnx
from mptctl.models.ownership import Existing, refuse_own_inputs
from mptctl.models.programs import ONNX, TAKES_BGR, load_program
from mptctl.models.run_folder import RunDir
from mptctl.models.state_dict import load_weights, read_state_dict
from mptctl.names import Channels
from mptctl.recipe import ModelRecipe, Recipe
from mptctl.recipe.validation import differences

# Recipe keys whose values follow from the weights.
READ_FROM_WEIGHTS = ("model.stem", "model.embedding_dim", "model.head")


def prepare_import(  # noqa: PLR0913  # one for each flag of `import`
    weights: Path,
    *,
    class_names: Sequence[str],
    recipe: Recipe,
    folder: Path,
    classes: Sequence[str] | None = None,
    num_old: int = 0,
    channels: Channels = "rgb",
    existing: Existing = "refuse for good",
    log: Callable[[str], None] = lambda text: None,
) -> Checkpoint:
    """Check a foreign model against its architecture and class names; write nothing.

    Args:
        weights: a file with a state dict; an ONNX model if the recipe's ``model.arch`` is ``onnx``.
        class_names: in the order of the logits.
        recipe: ``model.arch`` names the model's architecture, the ``data`` group describes its pictures.
        folder: the run folder that `write_run` will write.
        classes: class names of the split, old ones first; None without a split: then all classes are old.
        num_old: number of old classes among ``classes``; unused without a split.
        channels: order in which the model takes the channels of a picture.
        existing: what is done with a run in the folder.
        log: called with a note where the weights' head or stem differs from the recipe's.

    Returns:
        The checkpoint to be written, with the head and stem that the weights have; its digest is empty.

    Raises:
        CheckpointError: the weights do not fit, or a class name is not one of the split's.
        UsageError: the folder may not be written, or holds ``weights``; or the model cannot be changed from
            BGR to RGB.
    """
    refuse_own_inputs(folder, (weights,))
    RunDir(folder).refuse_unusable(existing)
    if classes is not None:
        _refuse_unknown_classes(class_names, classes)
    if recipe.model.arch == ONNX:
        state = _read_onnx_weights(weights, class_names, recipe, channels)
    else:
        model, state = _read_fitting_weights(weights, class_names, recipe, channels)
        changed = differences(model, recipe.model, "model.")
        settings = [f"{key}={json.dumps(now)}" for key, now, _ in changed if key in READ_FROM_WEIGHTS]
        if settings:
            log(f"as the weights have it: {' '.join(settings)}")
        recipe = recipe.model_copy(update={"model": model})
    old_names = set(class_names if classes is None else classes[:num_old])
    meta = CheckpointMeta(
        origin="imported",
        recipe=recipe,
        class_names=tuple(class_names),
        num_old=sum(name in old_names for name in class_names),
        split_fingerprint=None,
        versions=versions(),
        git_commit=git_commit(),
    )
    return Checkpoint(RunDir(folder).best, meta, state, None, "")


def _refuse_unknown_classes(class_names: Sequence[str], classes: Sequence[str]) -> None:
    """Raise CheckpointError if a model's class names are not all among the split's classes."""
    known = set(classes)
    unknown = [name for name in class_names if name not in known]
    if unknown:
        raise CheckpointError(
            f"--class-names: {some(unknown)} not among the split's classes; use their names as split.json "
            "has them"
        )


@torch.no_grad()
def _read_onnx_weights(
    weights: Path, class_names: Sequence[str], recipe: Recipe, channels: Channels
) -> dict[str, Tensor]:
    """Read an ONNX model as a state dict, after a trial run on two black pictures.

    Raises:
        CheckpointError: the model takes no pictures of the recipe's size, or has another number of classes.
    """
    # `find_described` decides whether a changed export may be imported.
    state, _ = read_onnx(weights, allow_changed=True)
    if channels == "bgr":
        state[TAKES_BGR] = torch.ones(1)
    size = recipe.data.image_size
    logits = load_program(state, str(weights))(torch.zeros(2, 3, size, size))
    refuse_other_class_count(weights, logits.shape[1], len(class_names))
    return state


def _read_fitting_weights(
    weights: Path, class_names: Sequence[str], recipe: Recipe, channels: Channels
) -> tuple[ModelRecipe, dict[str, Tensor]]:
    """Read weights; return the network recipe that they fit, and the state dict by its names, in RGB.

    Raises:
        CheckpointError: the weights do not fit the recipe's architecture.
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
    return inferred, model.state_dict()


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
