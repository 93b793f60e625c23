"""Importing: a model from elsewhere, with what it says of itself, becomes a run folder."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from mptctl.errors import CheckpointError, UsageError, some
from mptctl.files import read_names
from mptctl.machine.device import choose_device
from mptctl.machine.facts import git_commit, versions
from mptctl.models.checkpoint import CheckpointMeta, save_checkpoint
from mptctl.models.heads import find_head
from mptctl.models.networks import build_model, outline
from mptctl.models.onnx_program import read_onnx
from mptctl.models.ownership import Existing, left_alone, refuse_own_inputs
from mptctl.models.programs import load_program, read_onnx_state
from mptctl.models.run_folder import RunDir
from mptctl.models.state_dict import load_weights, read_state_dict
from mptctl.models.timm_networks import TIMM
from mptctl.recipe import Recipe
from mptctl.recipe.timm_pictures import picture_keys

WEIGHTS, CONFIG = "model.safetensors", "config.json"
# Name that transformers gives a network of timm that it wraps, and prefix of the names of its weights.
WRAPPER, WRAPPED = "timm_wrapper", "timm_model."
# No config is longer: a thousand class names are 30 kB.
CONFIG_BYTES = 10**7
# As evaluation resizes pictures where a config does not say how, or says what there is not here.
OURS = "bilinear"


@dataclass(frozen=True)
class HubModel:
    """The description that comes with a published model.

    Attributes:
        weights: its file.
        arch: for `model.arch`.
        class_names: in the order of its logits; None where it does not say.
        data: keys of the recipe's group `data`, as it was evaluated.
        prefix: before the names of its weights.
        notes: what the user should know.
    """

    weights: Path
    arch: str
    class_names: tuple[str, ...] | None
    data: dict[str, Any] = field(default_factory=dict)
    prefix: str = ""
    notes: tuple[str, ...] = ()


def find_described(path: Path) -> HubModel | None:
    """Read what a file or a folder says of the model in it; None where it is weights alone.

    Raises:
        UsageError: an ONNX model, and what reads it is not installed.
        CheckpointError: it is damaged, or its network is not one of timm's.
    """
    if path.suffix.lower() != ".onnx":
        return find_hub_model(path)
    meta = read_onnx(path)[1]
    if meta is None:
        return HubModel(path, "onnx", None)
    return HubModel(path, "onnx", meta.class_names, meta.preprocessing.recipe_keys())


def find_hub_model(path: Path) -> HubModel | None:
    """Read a published model's description; None where there is none.

    Args:
        path: its folder, or its weights with the description beside them.

    Raises:
        CheckpointError: the description is damaged, or its network is not one of timm's.
    """
    folder = path if path.is_dir() else path.parent
    config = folder / CONFIG
    if path.is_dir() and not config.is_file():
        raise CheckpointError(
            f"{path}: is a folder without {CONFIG}; name a file, or a folder with {WEIGHTS} and {CONFIG}"
        )
    if not config.is_file() or (path.is_file() and path.suffix.lower() != ".safetensors"):
        return None
    said = _read(config)
    arch = said.get("architecture")
    kind = said.get("model_type")
    if not isinstance(arch, str) or kind not in (None, WRAPPER):
        classes = said.get("architectures")
        name = classes[0] if isinstance(classes, list) and classes else kind or "no architecture"
        raise CheckpointError(
            f"{config}: names {str(name)[:80]}, a network of transformers; only networks by timm's names "
            "are taken (`architecture`); export it to ONNX, and bring that in with mptctl import FILE.onnx "
            "--class-names FILE"
        )
    data, notes = _pictures(said, config)
    weights = folder / WEIGHTS if path.is_dir() else path
    return HubModel(
        weights, f"{TIMM}{arch}", _class_names(said), data, WRAPPED if kind == WRAPPER else "", tuple(notes)
    )


def _read(config: Path) -> dict[str, Any]:
    try:
        if config.stat().st_size > CONFIG_BYTES:
            raise CheckpointError(
                f"{config}: is longer than {CONFIG_BYTES / 1e6:.0f} MB; it is no model's description"
            )
        said = json.loads(config.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{config}: cannot be read as JSON; fetch the model again") from error
    if not isinstance(said, dict):
        raise CheckpointError(f"{config}: is no JSON object; fetch the model again")
    return said


def _class_names(said: dict[str, Any]) -> tuple[str, ...] | None:
    """`label_names` of timm, or `id2label` of Hugging Face."""
    names = said.get("label_names")
    if names is None and isinstance(said.get("id2label"), dict):
        table = said["id2label"]
        names = [table.get(str(number)) for number in range(len(table))]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        return None
    return tuple(names) if len(set(names)) == len(names) else None


def _pictures(said: dict[str, Any], config: Path) -> tuple[dict[str, Any], list[str]]:
    """The picture keys of a recipe's `data` group, by the `pretrained_cfg`, and notes on them."""
    cfg = said.get("pretrained_cfg")
    if not isinstance(cfg, dict):
        return {}, [f"{config.name} does not say how it sees pictures: the recipe's data group does"]
    try:
        known = {"interpolation": OURS, "eval_crop": 1.0}
        data: dict[str, Any] = known | {"image_size": int(cfg["input_size"][-1])} | picture_keys(cfg)
    except (KeyError, TypeError, ValueError, IndexError, ZeroDivisionError, OverflowError) as error:
        raise CheckpointError(f"{config}: its pretrained_cfg is damaged; fetch the model again") from error
    way = cfg.get("interpolation", OURS)
    here = data["interpolation"]
    notes = [f"was evaluated on pictures resized {way}; here they are resized {here}"] if way != here else []
    return data, notes


def import_model(  # noqa: PLR0913  # one for each flag of `import`
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
        classes: of the split, old ones first; None without a split: all are old, as those in production.
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
    if classes is not None:
        _refuse_strangers(class_names, classes)
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
