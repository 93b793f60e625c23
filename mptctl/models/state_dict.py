"""Reading what torch saved, safely: nothing in a file is run."""

from __future__ import annotations

import argparse
import contextlib
import pickletools
import re
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mptctl.errors import CheckpointError, one_line, some
from mptctl.models.programs import read_safetensors

# Unpacked size over the size of an archive; torch packs nothing, so a larger ratio can only fill the memory.
LARGEST_RATIO = 10


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """Read the weights of a model that was trained elsewhere.

    Takes a state dict, or a mapping that holds one under ``state_dict``, ``model_state_dict`` or ``model``;
    prefixes that wrappers leave (``module.``, ``_orig_mod.``) are removed.

    Raises:
        CheckpointError: the file is missing, damaged, unsafe, or holds no state dict.
    """
    safetensors = path.suffix.lower() == ".safetensors"
    return state_dict_in(read_safetensors(path)[0] if safetensors else load_safely(path), path)


def state_dict_in(content: Any, path: Path) -> dict[str, Tensor]:
    """The weights in the content of a file, as of `read_state_dict`.

    Raises:
        CheckpointError: it holds no state dict.
    """
    for key in ("state_dict", "model_state_dict", "model"):
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
            break
    if (
        not isinstance(content, dict)
        or not content
        or not all(isinstance(v, Tensor) for v in content.values())
    ):
        raise CheckpointError(f"{path}: holds no state dict; save model.state_dict() with torch.save")
    if odd := [key for key, value in content.items() if value.is_complex()]:
        raise CheckpointError(f"{path}: {some(map(str, odd))} of complex numbers; save real weights")
    return {re.sub(r"^((module|_orig_mod)\.)+", "", str(key)): value for key, value in content.items()}


def load_weights(model: nn.Module, state: Mapping[str, Tensor], strict: bool = True) -> None:
    """Put tensors into a model by name.

    Some networks of torchvision convert a state dict by the version of the module that wrote it, which only
    torch's own files hold. Without it the model's own version is taken.

    Args:
        model: in place.
        state: by the names of its parameters and buffers.
        strict: refuse names that are missing or too many.

    Raises:
        RuntimeError: they do not fit.
    """
    versions = getattr(state, "_metadata", None) or getattr(model.state_dict(), "_metadata", {})
    known = OrderedDict(state)
    known._metadata = versions  # type: ignore[attr-defined]  # where torch keeps versions of modules
    model.load_state_dict(known, strict=strict)


def load_safely(path: Path, advice: Callable[[Path], str] = lambda path: "") -> Any:
    """Read a file of `torch.save` that holds only tensors and plain values; no code in it is run.

    Args:
        path: of the file.
        advice: makes the end of the message about a damaged file.

    Raises:
        CheckpointError: the file is missing, cut short, damaged, foreign, or would run code.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(4)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}; check the path") from error
    if not head:
        raise CheckpointError(f"{path}: not a checkpoint: the file is empty{advice(path)}")
    is_archive = head == b"PK\x03\x04"
    if is_archive and _ends_too_early(path):
        raise CheckpointError(f"{path}: incomplete: the archive ends too early{advice(path)}")
    if is_archive:
        refuse_packed(path)
    if not is_archive and head[:1] != b"\x80":
        raise CheckpointError(f"{path}: not a checkpoint: it is neither an archive nor a pickle of torch")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about kinds of pickles, which are refused below
            # Of checkpoints of timm's training: it holds plain values, and nothing in it is run.
            with torch.serialization.safe_globals([argparse.Namespace]):
                content = torch.load(path, map_location="cpu", weights_only=True)
        odd = _odd_tensor(content)
    except MemoryError:
        raise
    except Exception as error:  # torch raises many kinds for what is in a damaged or hostile file
        message = str(error)
        names = set(re.findall(r"GLOBAL ([\w.]+)", message)) or (
            set() if is_archive else _globals_in_pickle(path)
        )
        if names:
            raise CheckpointError(
                f"{path}: refused: it holds {some(sorted(names))}, which is not weights and could run code; "
                "save a plain state dict of tensors instead"
            ) from None
        if "TorchScript" in message:
            raise CheckpointError(
                f"{path}: is a TorchScript program, whose loader would run what is in it; save the model's "
                "state_dict() with torch.save, or export the model to ONNX"
            ) from None
        if is_archive and "central directory" in message:
            raise CheckpointError(f"{path}: incomplete: the archive ends too early{advice(path)}") from None
        if is_archive:
            raise CheckpointError(f"{path}: damaged: {one_line(error)[:100]}{advice(path)}") from None
        raise CheckpointError(f"{path}: not a checkpoint: {one_line(error)[:100]}") from None
    if odd is not None:
        raise CheckpointError(f"{path}: {odd}; save tensor.clone().cpu() of each weight with torch.save")
    return content


def refuse_packed(path: Path) -> None:
    """Raise CheckpointError where an archive unpacks to far more bytes than it has."""
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(info.file_size for info in archive.infolist())
    except (zipfile.BadZipFile, OSError, NotImplementedError, ValueError):
        return  # torch says what is wrong with it
    if unpacked > LARGEST_RATIO * path.stat().st_size:
        raise CheckpointError(
            f"{path}: refused: it unpacks to {unpacked / 1e6:,.0f} MB, over {LARGEST_RATIO} times its size; "
            "save it with torch.save"
        )


def _ends_too_early(path: Path) -> bool:
    """Tell whether an archive has no directory at its end."""
    try:
        return not zipfile.is_zipfile(path)
    except zipfile.BadZipFile:  # Python 3.11 raises it for a directory that names a second disk
        return False


def _odd_tensor(value: Any) -> str | None:
    """Describe the first tensor in nested values that is no plain dense array; None where there is none."""
    if isinstance(value, Tensor):
        if value.layout != torch.strided or value.is_quantized:
            return f"holds a tensor of layout {value.layout}, or a quantized one"
        if value.is_meta:
            return "holds a tensor without numbers (of the device meta)"
        # An expanded tensor repeats few stored numbers; a copy of it would take memory for all of them.
        if value.numel() * value.itemsize > value.untyped_storage().nbytes():
            return f"holds a tensor of {value.numel():,} numbers that stores fewer"
        return None
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list | tuple):
        return None
    return next((odd for odd in map(_odd_tensor, value) if odd is not None), None)


def _globals_in_pickle(path: Path) -> set[str]:
    """The names that a plain pickle would import, read from its opcodes without running them."""
    found: set[str] = set()
    strings: list[str] = []
    with open(path, "rb") as file, contextlib.suppress(ValueError, EOFError, UnicodeDecodeError):
        for opcode, argument, _ in pickletools.genops(file):
            if opcode.name == "GLOBAL":
                found.add(str(argument).replace(" ", "."))
            elif opcode.name == "STACK_GLOBAL":
                found.add(".".join(strings[-2:]))
            elif isinstance(argument, str):
                strings.append(argument)
    return found
