"""Reads files of `torch.save` safely: no code in a file is run."""

from __future__ import annotations

import argparse
import contextlib
import re
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mptctl.errors import CheckpointError, one_line, some
from mptctl.models.programs import read_safetensors

# Largest ratio of unpacked to packed size; torch does not compress, so a larger one is meant to fill memory.
LARGEST_RATIO = 10
# Names under which programs keep a state dict in a checkpoint.
STATE_KEYS = ("state_dict", "model_state_dict", "model", "net", "weights")


def read_state_dict(path: Path) -> dict[str, Tensor]:
    """Read the weights of a model that was trained elsewhere, .safetensors or a file of `torch.save`.

    See `find_state_dict` for what the file may hold.

    Raises:
        CheckpointError: the file is missing, damaged, unsafe, or holds no state dict.
    """
    if path.suffix.lower() == ".safetensors":
        return find_state_dict(read_safetensors(path)[0], path)
    return find_state_dict(load_safely(path), path)


def find_state_dict(content: Any, path: Path) -> dict[str, Tensor]:
    """Find the state dict in the content of a file.

    The content is a state dict, or a mapping that holds one under one of `STATE_KEYS`, or under two of them.
    Prefixes of wrappers (``module.``, ``_orig_mod.``) are removed from the names.

    Raises:
        CheckpointError: there is no state dict, or it holds complex numbers, or a weight twice.
    """
    for key in STATE_KEYS * 2:  # each twice, in whatever order two of them hold each other
        if isinstance(content, dict) and isinstance(content.get(key), dict):
            content = content[key]
    is_named = isinstance(content, dict)
    others = [key for key, value in content.items() if not isinstance(value, Tensor)] if is_named else []
    if not is_named or not content or others:
        raise CheckpointError(
            f"{path}: holds no state dict, alone or under {', '.join(STATE_KEYS)}: no tensor under "
            f"{some(others) or 'any name'}; save model.state_dict() with torch.save"
        )
    complex_names = [str(name) for name, value in content.items() if value.is_complex()]
    if complex_names:
        raise CheckpointError(f"{path}: {some(complex_names)} of complex numbers; save real weights")
    names: dict[str, Any] = {}
    for key in content:
        name = re.sub(r"^((module|_orig_mod)\.)+", "", str(key))
        if name in names:
            raise CheckpointError(
                f"{path}: holds two tensors for one weight: {names[name]} and {key}; save one network alone"
            )
        names[name] = key
    return {name: content[key] for name, key in names.items()}


class Fit(NamedTuple):
    """A comparison of tensors with those of a network.

    Attributes:
        taken: tensors that have name and shape of the network's own.
        missing: names of the network's tensors that are not among them, or have another shape.
        left: names of tensors that are not taken.
    """

    taken: dict[str, Tensor]
    missing: list[str]
    left: list[str]

    @property
    def unlike(self) -> list[str]:
        """Names of all tensors that only one side has, or that differ in shape; empty if all fit."""
        return list(dict.fromkeys([*self.missing, *self.left]))


def fit_weights(own: Mapping[str, Tensor], state: Mapping[str, Tensor]) -> Fit:
    """Compare tensors with a network's own by names and shapes; no number is read.

    Args:
        own: state dict of the network, which may be on the device "meta".
        state: the tensors.
    """
    taken = {
        name: tensor for name, tensor in state.items() if name in own and tensor.shape == own[name].shape
    }
    return Fit(
        taken=taken,
        missing=[name for name in own if name not in taken],
        left=[name for name in state if name not in taken],
    )


def load_weights(model: nn.Module, state: Mapping[str, Tensor], strict: bool = True) -> None:
    """Load tensors into a model by name, in place.

    Some networks of torchvision convert a state dict by the version of the module that wrote it. Only torch's
    own files hold that version; for other files the model's own version is assumed.

    Args:
        model: the network.
        state: tensors by the names of the network's parameters and buffers.
        strict: refuse missing and unknown names.

    Raises:
        RuntimeError: names or shapes do not fit.
    """
    versions = getattr(state, "_metadata", None) or getattr(model.state_dict(), "_metadata", {})
    versioned = OrderedDict(state)
    versioned._metadata = versions  # type: ignore[attr-defined]  # where torch keeps versions of modules
    model.load_state_dict(versioned, strict=strict)


def load_safely(path: Path, advice: Callable[[Path], str] = lambda path: "") -> Any:
    """Read a file of `torch.save` that holds only tensors and plain values, onto the CPU; run no code in it.

    Args:
        path: of the file.
        advice: returns the end of a message about a damaged file, given its path.

    Raises:
        CheckpointError: the file is missing, cut short, damaged, foreign, or would run code.
    """
    try:
        with open(path, "rb") as file:
            head = file.read(2)
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}; check the path") from error
    if head != b"PK" and head[:1] != b"\x80":
        raise CheckpointError(
            f"{path}: not a checkpoint: neither an archive nor a pickle of torch{advice(path)}"
        )
    try:
        if head == b"PK":
            _refuse_odd_archives(path)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pickles that are refused below
            # Checkpoints of timm's training hold a Namespace, which has plain values and runs no code.
            with torch.serialization.safe_globals([argparse.Namespace]):
                content = torch.load(path, map_location="cpu", weights_only=True)
        _refuse_odd_tensors(content, path)
    except (CheckpointError, MemoryError):
        raise
    except Exception as error:  # torch raises many kinds for a damaged or hostile file
        raise CheckpointError(_describe_load_error(error, path, head == b"PK", advice)) from None
    return content


def _describe_load_error(
    error: Exception, path: Path, is_archive: bool, advice: Callable[[Path], str]
) -> str:
    """The message for an error of `torch.load`; ``advice`` as in `load_safely`."""
    message = one_line(error)
    names = set(re.findall(r"GLOBAL ([\w.]+)", message))
    if names or "TorchScript" in message:
        return (
            f"{path}: refused: it holds {some(sorted(names)) if names else 'a TorchScript program'}, which "
            "is not weights and could run code; save a plain state dict of tensors instead"
        )
    with contextlib.suppress(zipfile.BadZipFile):  # for a directory that names a second disk
        if is_archive and not zipfile.is_zipfile(path):
            return f"{path}: incomplete: the archive ends too early{advice(path)}"
    said = message.rpartition("WeightsUnpickler error: ")[2][:100]
    return f"{path}: damaged: {said}{advice(path)}" if is_archive else f"{path}: not a checkpoint: {said}"


def _refuse_odd_archives(path: Path) -> None:
    """Raise CheckpointError for an archive that is not of torch, or unpacks to a much larger size."""
    try:
        with zipfile.ZipFile(path) as archive:
            unpacked = sum(info.file_size for info in archive.infolist())
            names = archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        return  # torch reports the fault
    if not any(name.endswith("/data.pkl") for name in names):
        raise CheckpointError(f"{path}: not a checkpoint: an archive, but not one that torch.save wrote")
    if unpacked > LARGEST_RATIO * path.stat().st_size:
        raise CheckpointError(
            f"{path}: refused: it unpacks to {unpacked / 1e6:,.0f} MB, over {LARGEST_RATIO} times its size; "
            "save it with torch.save"
        )


def _refuse_odd_tensors(value: Any, path: Path) -> None:
    """Raise CheckpointError for a tensor in nested values that is no plain dense array."""
    if isinstance(value, Tensor):
        # An expanded tensor repeats few stored numbers; a copy of it would take memory for all of them.
        is_dense = value.layout == torch.strided and not value.is_quantized and not value.is_meta
        if not is_dense or value.numel() * value.itemsize > value.untyped_storage().nbytes():
            raise CheckpointError(
                f"{path}: holds a tensor that stores no number for each of its places; save "
                "tensor.clone().cpu() of each weight with torch.save"
            )
    elif isinstance(value, dict):
        _refuse_odd_tensors(list(value.values()), path)
    elif isinstance(value, list | tuple):
        for item in value:
            _refuse_odd_tensors(item, path)
