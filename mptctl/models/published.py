"""Reads the config that lies beside a published model's weights: architecture, class names, pictures."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mptctl.errors import CheckpointError, UsageError
from mptctl.files.text_file import read_json_object
from mptctl.models.export_meta import ChangedExportError
from mptctl.models.onnx_program import read_onnx
from mptctl.models.timm_networks import TIMM
from mptctl.recipe.timm_pictures import picture_keys

WEIGHTS, CONFIG = ("model.safetensors", "pytorch_model.bin"), "config.json"
# `model_type` in a config of transformers for a network of timm.
WRAPPER = "timm_wrapper"
# Interpolation if a config names none, or one that is not known here.
DEFAULT_INTERPOLATION = "bilinear"


@dataclass(frozen=True)
class HubModel:
    """The description that comes with a published model.

    Attributes:
        weights: file of the weights.
        arch: value for the recipe key `model.arch`.
        class_names: in the order of the logits; None if the description does not name them.
        data: values for the recipe's group `data`, as in the model's own evaluation.
        notes: sentences for the user.
    """

    weights: Path
    arch: str
    class_names: tuple[str, ...] | None
    data: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


def find_described(path: Path, arch: str | None = None, *, allow_changed: bool = False) -> HubModel | None:
    """Read the description of a model that was published or exported to ONNX.

    Args:
        path: a file, or a folder with weights.
        arch: architecture that the user names; then no description is read. None: the description names it.
        allow_changed: take an ONNX model that another tool changed since it was exported, such as a quantized
            one; of its description only the preprocessing counts then.

    Returns:
        Weights and architecture alone, with ``arch`` or for an ONNX model without a description. None for a
        file of weights without a description, if ``arch`` is None.

    Raises:
        UsageError: an ONNX model is given with ``arch``, or the package onnx is not installed.
        CheckpointError: the description is damaged, or names a network that is not timm's; or an exported
            model was changed, without ``allow_changed``.
    """
    if path.suffix.lower() != ".onnx":
        return find_hub_model(path) if arch is None else HubModel(_find_weights(path), arch, None)
    if arch is not None:
        raise UsageError(f"{path}: is an ONNX model, which holds its network; leave out --arch {arch}")
    notes: tuple[str, ...] = ()
    try:
        meta = read_onnx(path)[1]
    except ChangedExportError:
        if not allow_changed:
            raise
        meta = read_onnx(path, allow_changed=True)[1]
        notes = ("was changed since it was exported; prepares pictures as before",)
    if meta is None:
        return HubModel(path, "onnx", None)
    return HubModel(path, "onnx", meta.class_names, meta.preprocessing.recipe_keys(), notes)


def find_hub_model(path: Path) -> HubModel | None:
    """Read the ``config.json`` of a published model.

    Args:
        path: the model's folder, or a weights file with the config beside it.

    Returns:
        None for a file without a config beside it, or one that is not .safetensors.

    Raises:
        CheckpointError: the config is missing in a folder, damaged, or names a network that is not timm's.
    """
    is_folder = path.is_dir()
    file = (path if is_folder else path.parent) / CONFIG
    if is_folder and not file.is_file():
        raise CheckpointError(
            f"{path}: is a folder without {CONFIG}; name a file, or a folder with {WEIGHTS[0]} and {CONFIG}"
        )
    if not is_folder and (path.suffix.lower() != ".safetensors" or not file.is_file()):
        return None
    config = read_json_object(file, "fetch the model again", CheckpointError)
    arch = config.get("architecture")
    model_type = config.get("model_type")
    if not isinstance(arch, str) or model_type not in (None, WRAPPER):
        classes = config.get("architectures")
        name = classes[0] if isinstance(classes, list) and classes else model_type or "no architecture"
        raise CheckpointError(
            f"{file}: names {str(name)[:80]}, a network of transformers; only networks by timm's names "
            "are taken (`architecture`); export it to ONNX, and bring that in with mptctl import FILE.onnx "
            "--class-names FILE"
        )
    data, notes = _read_pictures(config, file)
    return HubModel(_find_weights(path), f"{TIMM}{arch}", _read_class_names(config), data, tuple(notes))


def _find_weights(path: Path) -> Path:
    """The weights file in a folder, or ``path`` itself if it is no folder; the file need not exist."""
    if not path.is_dir():
        return path
    files = [path / name for name in WEIGHTS]
    return next((file for file in files if file.is_file()), files[0])


def _read_class_names(config: dict[str, Any]) -> tuple[str, ...] | None:
    """Class names in a config: `label_names` of timm or `id2label` of Hugging Face.

    None if they are missing, not all text, or not all different.
    """
    names, table = config.get("label_names"), config.get("id2label")
    if names is None and isinstance(table, dict):
        names = [table.get(str(number)) for number in range(len(table))]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        return None
    return tuple(names) if len(set(names)) == len(names) else None


def _read_pictures(config: dict[str, Any], file: Path) -> tuple[dict[str, Any], list[str]]:
    """Values for a recipe's group `data` from a config's `pretrained_cfg`, and notes for the user.

    Raises:
        CheckpointError: `pretrained_cfg` is damaged.
    """
    cfg = config.get("pretrained_cfg")
    if not isinstance(cfg, dict):
        return {}, [f"{file.name} does not say how it sees pictures: the recipe's data group does"]
    try:
        size = int(cfg["input_size"][-1])
        data: dict[str, Any] = {
            "interpolation": DEFAULT_INTERPOLATION,
            "eval_resize": None,
            "image_size": size,
        }
        data |= picture_keys(cfg, size)
    except (KeyError, TypeError, ValueError, IndexError, ZeroDivisionError, OverflowError) as error:
        raise CheckpointError(f"{file}: its pretrained_cfg is damaged; fetch the model again") from error
    published, here = cfg.get("interpolation", DEFAULT_INTERPOLATION), data["interpolation"]
    if published == here:
        return data, []
    return data, [f"was evaluated on pictures resized {published}; here they are resized {here}"]
