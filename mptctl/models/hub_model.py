"""Models that describe themselves: ONNX, and safetensors with the `config.json` of timm or Hugging Face."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mptctl.errors import CheckpointError
from mptctl.models.onnx_program import read_onnx
from mptctl.models.timm_networks import TIMM

WEIGHTS, CONFIG = "model.safetensors", "config.json"
# What transformers calls a network of timm that it wraps, and what it puts before the names of its weights.
WRAPPER, WRAPPED = "timm_wrapper", "timm_model."
# No config is longer: a thousand class names are 30 kB.
CONFIG_BYTES = 10**7
# As evaluation resizes pictures (torchvision's default).
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
        size = int(cfg["input_size"][-1])
        data: dict[str, Any] = {"image_size": size}
        for key in ("mean", "std"):
            if key in cfg:
                data[key] = [float(value) for value in cfg[key]]
        # As timm's own evaluation: the whole of which the crop is this part.
        data["eval_resize"] = math.floor(size / float(cfg.get("crop_pct") or 1.0))
    except (KeyError, TypeError, ValueError, IndexError, ZeroDivisionError, OverflowError) as error:
        raise CheckpointError(f"{config}: its pretrained_cfg is damaged; fetch the model again") from error
    way = cfg.get("interpolation", OURS)
    notes = [f"was evaluated on pictures resized {way}; here they are resized {OURS}"] if way != OURS else []
    return data, notes
