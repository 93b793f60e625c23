"""Models that others run: an exported file as weights, or as a program, which is asked and never trained."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from mptctl.errors import CheckpointError
from mptctl.models.export_meta import ExportMeta
from mptctl.models.onnx_program import OnnxProgram, read_onnx
from mptctl.models.safetensors_file import read_safetensors

# Names that stand for a program in place of an architecture, and the networks that programs are.
PROGRAMS = {"onnx": OnnxProgram}


def read_exported(path: Path) -> tuple[ExportMeta, dict[str, Tensor], str | None]:
    """An exported model: its description of itself, its state dict, and what stands for its architecture.

    The state dict of a program is the program itself, so that it is kept and compared as weights are.

    Raises:
        UsageError: what reads it is not installed.
        CheckpointError: it is damaged, or it does not say which classes it knows.
    """
    kind = path.suffix.lower()
    state, meta = EXPORT_READERS[kind](path)
    if meta is None:
        raise CheckpointError(
            f"{path}: does not say which classes it knows and which pictures it takes; bring it in with "
            f"mptctl import {path} --class-names FILE"
        )
    form = kind.removeprefix(".")
    return meta, state, form if form in PROGRAMS else None


def read_onnx_state(path: Path) -> tuple[dict[str, Tensor], ExportMeta | None]:
    """Read an ONNX model, and what it says of itself, as a state dict of bytes; raises as `read_onnx`."""
    program, meta = read_onnx(path)
    parts = {"program": program, "meta": b"" if meta is None else meta.model_dump_json().encode()}
    state = {
        name: torch.from_numpy(np.frombuffer(part, dtype=np.uint8).copy()) for name, part in parts.items()
    }
    return state, meta


# The readers of exported models by their endings.
EXPORT_READERS = {".onnx": read_onnx_state, ".safetensors": read_safetensors}


def load_program(kind: str, state: dict[str, Tensor], where: str) -> nn.Module:
    """The network that a program is, from its state dict.

    Raises:
        UsageError: what runs it is not installed.
        CheckpointError: it is not taken.
    """
    if not {"program", "meta"} <= state.keys():
        raise CheckpointError(f"{where}: holds no {kind} program; export or import it again")
    program, text = (state[name].numpy().tobytes() for name in ("program", "meta"))
    return PROGRAMS[kind](program, ExportMeta.model_validate_json(text) if text else None, where)
