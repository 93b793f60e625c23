"""Weights as safetensors: tensors and text, in which nothing can run."""

from __future__ import annotations

import hashlib
from pathlib import Path

import torch
from torch import Tensor

from mptctl.errors import CheckpointError, one_line
from mptctl.machine.facts import require_extra
from mptctl.models.export_meta import KEY, ExportMeta, parse_export_meta, refuse_changed


def read_safetensors(path: Path) -> tuple[dict[str, Tensor], ExportMeta | None]:
    """A state dict, and what the file says of itself where `export` wrote it.

    Raises:
        UsageError: safetensors is not installed.
        CheckpointError: it is missing, damaged, or changed since it was exported.
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
    meta = parse_export_meta(text, path)
    if meta is not None:
        refuse_changed(meta, tensors_content(state), path)
    return state, meta


def tensors_content(state: dict[str, Tensor]) -> str:
    """SHA-256 of tensors with their names, types and shapes, in hexadecimal."""
    digest = hashlib.sha256()
    for name, tensor in sorted(state.items()):
        digest.update(f"{name}\0{tensor.dtype}{tuple(tensor.shape)}\0".encode())
        digest.update(tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
