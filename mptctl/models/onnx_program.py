"""ONNX models: read with a check of where their data lie, and run by onnxruntime as a network."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from mptctl.errors import CheckpointError, first_line, one_line
from mptctl.machine.facts import require_extra, usable_memory
from mptctl.models.export_meta import KEY, ExportMeta, parse_export_meta, refuse_changed

# Bytes that protobuf holds in one message.
LARGEST = 2**31 - 1


def read_onnx(path: Path) -> tuple[bytes, ExportMeta | None]:
    """Read an ONNX model with its data in other files, and its description where `export` wrote it.

    Raises:
        UsageError: onnx is not installed.
        CheckpointError: it is missing, damaged, changed since it was exported, or names data outside its
            folder.
    """
    require_extra("onnx", "export", str(path))
    import onnx
    from google.protobuf.message import DecodeError

    try:
        proto = onnx.load(str(path), load_external_data=False)
        if not proto.graph.node:
            raise CheckpointError(f"{path}: not an ONNX model: it has no graph; name another file")
        size = sum(_check_place(tensor, path) for tensor in _external(proto))
        if size > LARGEST:
            raise CheckpointError(f"{path}: its data have {size / 1e9:.1f} GB; at most 2 GB can be read")
        onnx.load_external_data_for_model(proto, str(path.parent))
        for tensor in _external(proto):  # of functions, which onnx leaves
            raise CheckpointError(
                f"{path}: the tensor {tensor.name} lies in another file; save it in one file"
            )
        program = proto.SerializeToString()
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}; check the path") from error
    except (DecodeError, ValueError, onnx.checker.ValidationError) as error:
        raise CheckpointError(f"{path}: not an ONNX model, or damaged: {one_line(error)[:120]}") from error
    text = next((entry.value for entry in proto.metadata_props if entry.key == KEY), None)
    meta = parse_export_meta(text, path)
    if meta is not None:
        refuse_changed(meta, onnx_content(proto), path)
    return program, meta


def onnx_content(proto: Any) -> str:
    """SHA-256 of a model without its description, in hexadecimal."""
    bare = type(proto)()
    bare.CopyFrom(proto)
    kept = [entry for entry in proto.metadata_props if entry.key != KEY]
    del bare.metadata_props[:]
    bare.metadata_props.extend(kept)
    return hashlib.sha256(bare.SerializeToString(deterministic=True)).hexdigest()


def _external(message: Any) -> Iterator[Any]:
    """Every tensor in a message of protobuf, at any depth, whose data lie in another file."""
    if message.DESCRIPTOR.full_name == "onnx.TensorProto":
        if message.data_location == message.EXTERNAL:
            yield message
        return
    for field, value in message.ListFields():
        if field.message_type is not None:
            for each in value if hasattr(value, "__len__") else [value]:
                yield from _external(each)


def _check_place(tensor: Any, path: Path) -> int:
    """The bytes that a tensor has in another file, which must lie whole in the model's folder."""
    said = {entry.key: entry.value for entry in tensor.external_data}
    location = said.get("location", "")
    folder = os.path.realpath(path.parent)
    file = os.path.realpath(os.path.join(folder, location))
    if (
        not location
        or os.path.isabs(location)
        or os.path.commonpath([folder, file]) != folder
        or file == folder
    ):
        raise CheckpointError(
            f"{path}: refused: the data of {tensor.name} lie outside its folder ({location[:80]!r}); save it "
            "in one"
        )
    if not os.path.isfile(file):
        raise CheckpointError(f"{path}: incomplete: {location} is not beside it; copy both files")
    there = os.path.getsize(file)
    begin, length = int(said.get("offset", 0)), int(said.get("length", there))
    if begin < 0 or length < 0 or begin + length > there:
        raise CheckpointError(
            f"{path}: damaged: {location} has {there} bytes, {tensor.name} wants {begin + length}"
        )
    return length


@cache
def _limit_memory() -> None:
    """Limit onnxruntime's memory in this process to half of the usable memory.

    200 bytes of a graph can ask for a tensor of any size; onnxruntime refuses one beyond the limit.
    """
    import onnxruntime

    kind = onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR
    cpu = onnxruntime.OrtMemoryInfo("Cpu", kind, 0, onnxruntime.OrtMemType.DEFAULT)
    # -1: as onnxruntime decides.
    bounded = onnxruntime.OrtArenaCfg(usable_memory() // 2, -1, -1, -1)
    onnxruntime.create_and_register_allocator(cpu, bounded)


class OnnxProgram(nn.Module):
    """A network that onnxruntime runs on the CPU, wherever its pictures are.

    Args:
        program: the serialized model.
        meta: its description; None: it takes normalised pictures.
        where: its name in messages.
        turned: it takes BGR.

    Raises:
        UsageError: onnxruntime is not installed.
        CheckpointError: onnxruntime does not take it, or it has other inputs than pictures; of a call, where
            it asks for more than half of the memory of the machine, or of its container.
    """

    def __init__(self, program: bytes, meta: ExportMeta | None, where: str, turned: bool = False) -> None:
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
            found = ", ".join(f"{each.name} {each.type} {each.shape}" for each in inputs)
            raise CheckpointError(f"{where}: takes {found[:160]}; it must take pictures alone, (B, 3, S, S)")
        self.where, self.name, self.dtype = where, inputs[0].name, types[inputs[0].type]
        self.turned = turned
        fixed = inputs[0].shape[0]
        self.batch = fixed if isinstance(fixed, int) else None
        see = None if meta is None or not meta.preprocessing.inside else meta.preprocessing
        if (see is None) == (self.dtype is np.uint8):
            raise CheckpointError(
                f"{where}: takes {inputs[0].type}; it must take normalised pictures as floats"
            )
        self.levels = None if see is None else (torch.tensor(see.mean), torch.tensor(see.std))

    def forward(self, images: Tensor) -> Tensor:
        """images: (B, 3, S, S), normalised -> (B, C) float32 on the same device."""
        pictures = images.detach().float().cpu()
        if self.turned:
            pictures = pictures.flip(1)
        if self.levels is not None:  # the graph normalises by itself
            mean, std = self.levels
            pictures = ((pictures.permute(0, 2, 3, 1) * std + mean) * 255).round().clamp(0, 255)
        given = np.ascontiguousarray(pictures.numpy().astype(self.dtype))
        step = self.batch or max(len(given), 1)
        found = [self._ask(given[start : start + step]) for start in range(0, len(given), step)]
        return torch.from_numpy(np.concatenate(found)).to(images.device)

    def _ask(self, given: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        count = len(given)
        if self.batch is not None and count < self.batch:
            given = np.concatenate([given, np.zeros((self.batch - count, *given.shape[1:]), given.dtype)])
        try:
            logits = self.session.run(None, {self.name: given})[0]
        except Exception as error:  # as above
            raise CheckpointError(
                f"{self.where}: onnxruntime cannot compute pictures of {given.shape[1:]}: "
                f"{first_line(error)[:160]}"
            ) from error
        if not isinstance(logits, np.ndarray) or logits.ndim != 2 or len(logits) != len(given):
            raise CheckpointError(f"{self.where}: its first output is not one row of logits a picture")
        return logits[:count].astype(np.float32)
