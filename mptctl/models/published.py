"""Reads the descriptions of published models: a folder or a file with weights, and a config beside them."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mptctl.errors import CheckpointError, UsageError
from mptctl.models.onnx_program import read_onnx
from mptctl.models.timm_networks import TIMM
from mptctl.recipe.timm_pictures import picture_keys

WEIGHTS, CONFIG = ("model.safetensors", "pytorch_model.bin"), "config.json"
# Name that transformers gives a network of timm that it wraps.
WRAPPER = "timm_wrapper"
# Longer than any config: a thousand class names are 30 kB.
CONFIG_BYTES = 10**7
# Interpolation where a config names none, or one that is not known here.
OURS = "bilinear"


@dataclass(frozen=True)
class HubModel:
    """The description that comes with a published model.

    Attributes:
        weights: its file.
        arch: for `model.arch`.
        class_names: in the order of its logits; None where they are not named.
        data: keys of the recipe's group `data` with which it was evaluated.
        notes: for the user.
    """

    weights: Path
    arch: str
    class_names: tuple[str, ...] | None
    data: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def find_described(path: Path, arch: str | None = None) -> HubModel | None:
    """Read the description of a model in a file or a folder; None where there are only weights.

    Args:
        path: of the file or the folder.
        arch: that the user names; then only the weights are searched for.

    Raises:
        UsageError: an ONNX model that an architecture is named for, or what reads it is not installed.
        CheckpointError: it is damaged, or its network is not one of timm's.
    """
    if path.suffix.lower() != ".onnx":
        return find_hub_model(path) if arch is None else HubModel(_weights_in(path), arch, None)
    if arch is not None:
        raise UsageError(f"{path}: is an ONNX model, which holds its network; leave out --arch {arch}")
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
            f"{path}: is a folder without {CONFIG}; name a file, or a folder with {WEIGHTS[0]} and {CONFIG}"
        )
    if not config.is_file() or (not path.is_dir() and path.suffix.lower() != ".safetensors"):
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
    return HubModel(_weights_in(path), f"{TIMM}{arch}", _class_names(said), data, tuple(notes))


def _weights_in(path: Path) -> Path:
    """The file of weights in a folder; a file is its own."""
    if not path.is_dir():
        return path
    there = [path / name for name in WEIGHTS if (path / name).is_file()]
    return there[0] if there else path / WEIGHTS[0]


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
    """Class names in a config, `label_names` of timm or `id2label` of Hugging Face; None without them."""
    names = said.get("label_names")
    if names is None and isinstance(said.get("id2label"), dict):
        table = said["id2label"]
        names = [table.get(str(number)) for number in range(len(table))]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        return None
    return tuple(names) if len(set(names)) == len(names) else None


def _pictures(said: dict[str, Any], config: Path) -> tuple[dict[str, Any], list[str]]:
    """Keys of a recipe's `data` group from a config's `pretrained_cfg`, and notes on them."""
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
