"""Reads exported models: safetensors as weights, ONNX as a program that predicts but cannot be trained."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
from torch import Tensor, nn

from mptctl.errors import CheckpointError, one_line
from mptctl.machine.facts import require_extra
from mptctl.models.export_meta import KEY, ExportMeta, parse_export_meta
from mptctl.models.onnx_program import OnnxProgram, read_onnx

# A tensor of this name in a program's state dict says that the program takes BGR.
TAKES_BGR = "turned"
# The `model.arch` that stands for a program.
ONNX = "onnx"


def read_exported(path: Path) -> tuple[ExportMeta, dict[str, Tensor], str | None]:
    """Read an exported model, .onnx or .safetensors.

    Returns:
        The description, the state dict, and `model.arch` if the file is a program, else None. A program's
        state dict holds the program's bytes as a tensor.

    Raises:
        UsageError: the package that reads the file is not installed.
        CheckpointError: the file is damaged, or has no description.
    """
    kind = path.suffix.lower()
    state, meta = EXPORT_READERS[kind](path)
    if meta is None:
        raise CheckpointError(
            f"{path}: does not say which classes it knows and which pictures it takes; bring it in with "
            f"mptctl import {path} --class-names FILE"
        )
    return meta, state, ONNX if kind == ".onnx" else None


def read_safetensors(path: Path) -> tuple[dict[str, Tensor], ExportMeta | None]:
    """Read the state dict in a safetensors file, and the description that `export` wrote into the file.

    Returns:
        The state dict and the description; None for files of other programs.

    Raises:
        UsageError: safetensors is not installed.
        CheckpointError: the file is missing, damaged, or changed since it was exported.
    """
    require_extra("safetensors", "export", str(path))
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            text = (file.metadata() or {}).get(KEY)
            state = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118, it is no mapping
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}; check the path") from error
    except SafetensorError as error:
        raise CheckpointError(
            f"{path}: not a safetensors file, or damaged: {one_line(error)[:120]}"
        ) from error
    return state, parse_export_meta(text, path, lambda: tensors_digest(state))


def tensors_digest(state: dict[str, Tensor]) -> str:
    """SHA-256 of tensors with their names, types and shapes, in hexadecimal."""
    digest = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        digest.update(f"{name}\0{tensor.dtype}{tuple(tensor.shape)}\0".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()


# Readers of exported models, by file suffix.
EXPORT_READERS = {".onnx": read_onnx, ".safetensors": read_safetensors}


def load_program(state: dict[str, Tensor], where: str) -> nn.Module:
    """Build the network of a program from its state dict.

    Args:
        state: as returned by `read_onnx`, perhaps with the tensor `TAKES_BGR`.
        where: the program's name in messages.

    Raises:
        UsageError: the package that runs the program is not installed.
        CheckpointError: the state dict holds no program, or the package refuses the program.
    """
    if not {"program", "meta"} <= state.keys():
        raise CheckpointError(f"{where}: holds no ONNX program; export or import it again")
    program, text = (state[name].numpy().tobytes() for name in ("program", "meta"))
    meta = ExportMeta.model_validate_json(text) if text else None
    return OnnxProgram(program, meta, where, takes_bgr=TAKES_BGR in state)
