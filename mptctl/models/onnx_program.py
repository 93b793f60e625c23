"""ONNX models: reads them, and runs them by onnxruntime as networks."""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mptctl.errors import CheckpointError, first_line, one_line
from mptctl.machine.facts import require_extra, usable_memory
from mptctl.models.export_meta import KEY, ExportMeta, parse_export_meta

# Most bytes in one message of protobuf.
MAX_BYTES = 2**31 - 1


def read_onnx(path: Path, *, allow_changed: bool = False) -> tuple[dict[str, Tensor], ExportMeta | None]:
    """Read an ONNX model, with data in other files of its folder, as a state dict, and its description.

    Args:
        path: of the ONNX model.
        allow_changed: read a model that was changed since it was exported, too.

    Returns:
        The state dict, with the uint8 tensors "program" (the model as one serialized message) and "meta" (the
        description as JSON), and the description that `export` wrote; None for other models.

    Raises:
        UsageError: onnx is not installed.
        CheckpointError: the file is missing, damaged, over 2 GB, changed since it was exported, or names data
            outside its folder.
    """
    require_extra("onnx", "export", str(path))
    import onnx
    from google.protobuf.message import DecodeError

    try:
        proto = onnx.load(str(path))  # refuses data outside the model's folder
        if not proto.graph.node:
            raise CheckpointError(f"{path}: not an ONNX model: it has no graph; name another file")
        program = proto.SerializeToString()
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}; check the path") from error
    except (DecodeError, ValueError, onnx.checker.ValidationError) as error:
        raise CheckpointError(
            f"{path}: not an ONNX model, damaged, or not whole: {one_line(error)[:300]}; save it in one file"
        ) from error
    text = next((entry.value for entry in proto.metadata_props if entry.key == KEY), None)
    meta = parse_export_meta(text, path, lambda: onnx_digest(proto), allow_changed=allow_changed)
    parts = {"program": program, "meta": b"" if meta is None else meta.model_dump_json().encode()}
    state = {
        name: torch.from_numpy(np.frombuffer(part, dtype=np.uint8).copy()) for name, part in parts.items()
    }
    return state, meta


def onnx_digest(proto: Any) -> str:
    """SHA-256 of an ONNX model without mptctl's description, in hexadecimal; ``proto`` is not changed."""
    bare = type(proto)()
    bare.CopyFrom(proto)
    other_entries = [entry for entry in proto.metadata_props if entry.key != KEY]
    del bare.metadata_props[:]
    bare.metadata_props.extend(other_entries)
    return hashlib.sha256(bare.SerializeToString(deterministic=True)).hexdigest()


@cache
def _limit_memory() -> None:
    """Limit onnxruntime's memory in this process to half of the usable memory; later calls do nothing.

    A small graph can ask for a tensor of any size. onnxruntime raises an error for a tensor beyond the limit.
    """
    import onnxruntime

    kind = onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR
    cpu = onnxruntime.OrtMemoryInfo("Cpu", kind, 0, onnxruntime.OrtMemType.DEFAULT)
    # Growth strategy, first chunk and waste per chunk: -1 leaves each to onnxruntime.
    bounded = onnxruntime.OrtArenaCfg(usable_memory() // 2, -1, -1, -1)
    onnxruntime.create_and_register_allocator(cpu, bounded)


class OnnxProgram(nn.Module):
    """A network that onnxruntime runs on the CPU; pictures and logits may be on any device.

    Args:
        program: the serialized ONNX model.
        meta: the model's description; None: the model takes normalised pictures.
        where: the model's name in messages.
        takes_bgr: the model takes channels in the order BGR.

    Raises:
        UsageError: onnxruntime is not installed.
        CheckpointError: onnxruntime refuses the model, or the model takes other inputs than pictures. Calling
            the network raises it if onnxruntime fails, as when a tensor exceeds half of the usable memory.
    """

    def __init__(self, program: bytes, meta: ExportMeta | None, where: str, takes_bgr: bool = False) -> None:
        super().__init__()
        require_extra("onnxruntime", "export", where)
        import onnxruntime

        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        options.log_severity_level = 3  # errors; its warnings are about its own optimizations
        _limit_memory()
        options.add_session_config_entry("session.use_env_allocators", "1")
        try:
            self.session = onnxruntime.InferenceSession(program, options, providers=["CPUExecutionProvider"])
        except Exception as error:  # onnxruntime raises kinds of its own for each fault of a model
            raise CheckpointError(
                f"{where}: onnxruntime does not take it: {first_line(error)[:160]}"
            ) from error
        inputs = self.session.get_inputs()
        types = {"tensor(float)": np.float32, "tensor(float16)": np.float16, "tensor(uint8)": np.uint8}
        if len(inputs) != 1 or inputs[0].type not in types or len(inputs[0].shape) != 4:
            listed = ", ".join(f"{each.name} {each.type} {each.shape}" for each in inputs)
            raise CheckpointError(f"{where}: takes {listed[:160]}; it must take pictures alone, (B, 3, S, S)")
        self.where, self.name, self.dtype = where, inputs[0].name, types[inputs[0].type]
        self.takes_bgr = takes_bgr
        batch_size = inputs[0].shape[0]
        self.fixed_batch = batch_size if isinstance(batch_size, int) else None
        inside = meta.preprocessing if meta is not None and meta.preprocessing.inside else None
        if (inside is not None) != (self.dtype is np.uint8):
            raise CheckpointError(
                f"{where}: takes {inputs[0].type}; it must take normalised pictures as floats"
            )
        # Mean and std that the graph itself applies; None if the graph takes normalised pictures.
        self.normalisation = None if inside is None else (torch.tensor(inside.mean), torch.tensor(inside.std))

    def forward(self, images: Tensor) -> Tensor:
        """images: (B, 3, S, S), normalised -> (B, C) float32 on the same device."""
        pictures = images.detach().float().cpu()
        if self.takes_bgr:
            pictures = pictures.flip(1)
        if self.normalisation is not None:  # back to grey levels, since the graph normalises
            mean, std = self.normalisation
            pictures = ((pictures.permute(0, 2, 3, 1) * std + mean) * 255).round().clamp(0, 255)
        batch = np.ascontiguousarray(pictures.numpy().astype(self.dtype))
        step = self.fixed_batch or max(len(batch), 1)
        logits = [self._run(batch[start : start + step]) for start in range(0, len(batch), step)]
        return torch.from_numpy(np.concatenate(logits)).to(images.device)

    def _run(self, pictures: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Run the graph on at most one batch; return logits (B, C). A fixed batch is filled up with zeros."""
        count = len(pictures)
        if self.fixed_batch is not None and count < self.fixed_batch:
            filler = np.zeros((self.fixed_batch - count, *pictures.shape[1:]), pictures.dtype)
            pictures = np.concatenate([pictures, filler])
        try:
            logits = self.session.run(None, {self.name: pictures})[0]
        except Exception as error:  # onnxruntime raises kinds of its own
            raise CheckpointError(
                f"{self.where}: onnxruntime cannot compute pictures of {pictures.shape[1:]}: "
                f"{first_line(error)[:160]}"
            ) from error
        if not isinstance(logits, np.ndarray) or logits.ndim != 2 or len(logits) != len(pictures):
            raise CheckpointError(f"{self.where}: its first output is not one row of logits a picture")
        return logits[:count].astype(np.float32)
