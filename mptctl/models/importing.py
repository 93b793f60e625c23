"""Importing: a state dict from elsewhere becomes a run folder that serves as old model or reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import Tensor

from mptctl.errors import CheckpointError, UsageError, some
from mptctl.files import read_names
from mptctl.machine.device import choose_device
from mptctl.machine.facts import git_commit, versions
from mptctl.models.checkpoint import CheckpointMeta, save_checkpoint
from mptctl.models.heads import find_head
from mptctl.models.networks import build_model, outline
from mptctl.models.ownership import Existing, left_alone, refuse_own_inputs
from mptctl.models.programs import load_program, read_onnx_state
from mptctl.models.run_folder import RunDir
from mptctl.models.state_dict import load_weights, read_state_dict
from mptctl.recipe import Recipe


def import_model(
    weights: Path,
    *,
    class_names: Sequence[str],
    recipe: Recipe,
    folder: Path,
    classes: Sequence[str] | None = None,
    num_old: int = 0,
    split_json: str | None = None,
    prefix: str = "",
    overwrite: bool = False,
    log: Callable[[str], None] = lambda text: None,
) -> Path:
    """Check a foreign model's weights against its architecture and class names, and write a run folder.

    Args:
        weights: file with a state dict, or an ONNX model, whose ``model.arch`` is ``onnx``.
        class_names: in the order of the logits.
        recipe: its ``model.arch`` is the model's, its ``data`` group says how the model sees pictures.
        folder: the run folder.
        classes: of the split, old ones first; None: there is no split, and all classes are old, as those of a
            model in production are.
        num_old: how many of them are old.
        split_json: the split, as it is kept in a run folder.
        prefix: before the names of the weights, to be left out.
        overwrite: throw away the run that is in the folder; what no run wrote stays.
        log: called with what else the user should know.

    Returns:
        The checkpoint that was written.

    Raises:
        UsageError: the folder holds a run and is not to be overwritten, or it holds what is brought in.
        CheckpointError: the weights do not fit, or name classes that the split does not know.
    """
    refuse_own_inputs(folder, (weights,))
    existing: Existing = "replace" if overwrite else "refuse for good"
    RunDir(folder).refuse_unusable(existing)
    _refuse_strangers(class_names, class_names if classes is None else classes)
    if recipe.model.arch == "onnx":
        state = _asked_state(weights, class_names, recipe)
    else:
        state = _fitting_state(weights, class_names, recipe, prefix)
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
    run = RunDir(folder)
    with run.locked(existing):
        if overwrite:
            for note in left_alone(run.empty()):
                log(f"{folder}: {note}")
        run.write_start(recipe.to_yaml(), split_json, choose_device("cpu"))
        save_checkpoint(run.best, meta, state)
    return run.best


def _refuse_strangers(class_names: Sequence[str], classes: Sequence[str]) -> None:
    unknown = [name for name in class_names if name not in set(classes)]
    if unknown:
        raise CheckpointError(
            f"--class-names: {some(unknown)} not among the split's classes; use their names as split.json "
            "has them"
        )


@torch.no_grad()
def _asked_state(weights: Path, class_names: Sequence[str], recipe: Recipe) -> dict[str, Tensor]:
    """An ONNX model as a state dict, when it has answered two pictures of nothing.

    Raises:
        CheckpointError: it takes no pictures of the recipe's size, or answers other classes.
    """
    state, _ = read_onnx_state(weights)
    size = recipe.data.image_size
    logits = load_program("onnx", state, str(weights))(torch.zeros(2, 3, size, size))
    _refuse_other_count(weights, logits.shape[1], class_names)
    return state


def _refuse_other_count(weights: Path, answers: int, class_names: Sequence[str]) -> None:
    if answers != len(class_names):
        raise CheckpointError(
            f"{weights}: answers {answers} classes, --class-names names {len(class_names)}; name them all, "
            "in order"
        )


def _fitting_state(
    weights: Path, class_names: Sequence[str], recipe: Recipe, prefix: str
) -> dict[str, Tensor]:
    """The weights, as the state dict of the recipe's network.

    Raises:
        CheckpointError: they do not fit it.
    """
    names, arch = class_names, recipe.model.arch
    # By shapes first, since flags may ask for more than memory.
    model = outline(recipe.model, len(names), recipe.data.image_size)
    state = {key.removeprefix(prefix): tensor for key, tensor in read_state_dict(weights).items()}
    head, _ = find_head(model, arch)
    own = model.state_dict()
    # A module of Lightning, or another that holds the network as `self.model`.
    if not any(key in own for key in state):
        state = {key.removeprefix("model."): tensor for key, tensor in state.items()}
    rows = {len(v) for k, v in state.items() if v.ndim and k.startswith(head) and k.endswith("weight")}
    if rows and len(names) not in rows:
        _refuse_other_count(weights, max(rows), names)
    wrong = [k for k in own if k not in state or state[k].shape != own[k].shape]
    wrong += [k for k in state if k not in own]
    if wrong:
        raise CheckpointError(
            f"{weights}: does not fit --arch {arch}: {some(wrong)}; name the architecture that it was made "
            "with, and model.stem or model.embedding_dim with --set"
        )
    model = build_model(recipe.model, len(names), recipe.data.image_size)
    load_weights(model, state)
    return model.state_dict()


def read_class_names(path: Path) -> list[str]:
    """Class names from a file, one a line.

    Raises:
        UsageError: it cannot be read, names no class, or one twice.
    """
    names = read_names(path.expanduser(), "--class-names")
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise UsageError(f"--class-names {path}: {some(twice)} stands there twice; every class has one line")
    return names
