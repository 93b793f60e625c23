"""The checkpoint: one file format, written atomically, checked when read, never unpickled unsafely."""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor, nn

from mptctl.errors import CheckpointError, UsageError, one_line
from mptctl.files import Model, write_atomically
from mptctl.models.export_meta import refuse_torch_program
from mptctl.models.networks import build_model, refuse_other_shapes
from mptctl.models.programs import EXPORT_READERS, PROGRAMS, load_program, read_exported
from mptctl.models.records import Adjustment, BiasPath
from mptctl.models.state_dict import load_safely, load_weights
from mptctl.recipe import Recipe

FORMAT = "mptctl-checkpoint"
SCHEMA_VERSION = 1


class CheckpointMeta(Model):
    """The description of a checkpoint by itself."""

    schema_version: int = Field(SCHEMA_VERSION, description="of this file format")
    origin: Literal["trained", "imported"] = Field(
        "trained", description="trained here, or brought in by import"
    )
    recipe: Recipe = Field(description="the run's complete recipe")
    class_names: tuple[str, ...] = Field(description="in the order of the model's logits")
    num_old: int = Field(description="how many of them are old classes")
    split_fingerprint: str | None = Field(None, description="of the split; null for an imported model")
    epoch: int = Field(0, description="finished epochs")
    step_in_epoch: int = Field(0, description="optimizer steps done in the epoch after those")
    global_step: int = Field(0, description="optimizer steps done in all")
    metrics: dict[str, float | None] = Field(
        {}, description="validation figures when it was saved, fractions"
    )
    best_error: float | None = Field(None, description="lowest validation error so far, a fraction")
    adjustment: Adjustment | None = Field(None, description="what `adjust` changed after training")
    bias_path: BiasPath | None = Field(None, description="k so far, where it is moved to keep a budget")
    teachers: dict[str, str] = Field({}, description="role to digest of each teacher's checkpoint")
    versions: dict[str, str] = Field({}, description="of what computed it")
    git_commit: str | None = Field(
        None, description="of the checkout that the code ran from, where there is one"
    )
    jpeg_decoder: str | None = Field(
        None, description="what decoded JPEG files in training; null of other pictures and earlier versions"
    )


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read and verified.

    Attributes:
        path: where it came from.
        meta: the description in it.
        model: the model's state dict, on the CPU.
        training: optimizer and random state, for resuming; None in a checkpoint that is only for use.
        digest: SHA-256 over meta and tensors, in hexadecimal.
    """

    path: Path
    meta: CheckpointMeta
    model: dict[str, Tensor]
    training: dict[str, Any] | None
    digest: str


def save_checkpoint(
    path: Path,
    meta: CheckpointMeta,
    model: dict[str, Tensor],
    training: dict[str, Any] | None = None,
    keep_previous: Path | None = None,
) -> str:
    """Write a checkpoint so that at every moment either the old or the new file is whole.

    Args:
        path: the file.
        meta: the description in it.
        model: the model's state dict.
        training: optimizer and random state, of tensors and plain values.
        keep_previous: new path of the file that lay at ``path``; None: it is replaced.

    Returns:
        The digest.

    Raises:
        StorageError: the disk is full or the folder cannot be written; the file that was there stays.
    """
    meta_json = meta.model_dump_json()
    digest = _digest(meta_json, model, training)
    buffer = io.BytesIO()
    content = {"format": FORMAT, "meta": meta_json, "model": model, "training": training, "digest": digest}
    torch.save(content, buffer)
    # Released at once: left to the garbage collection of CPython 3.12.1 after an error, the view ends the
    # process.
    with buffer.getbuffer() as view:
        write_atomically(path, view, keep_previous)
    return digest


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint, safely, and verify its digest.

    Raises:
        CheckpointError: the file is missing, cut short, damaged, foreign, or runs code when unpickled.
        UsageError: an exported model, and what reads it is not installed.
    """
    refuse_torch_program(path.suffix, str(path))
    if path.suffix.lower() in EXPORT_READERS:
        exported, weights, arch = read_exported(path)
        meta = CheckpointMeta(
            origin="imported",
            recipe=exported.recipe(arch),
            class_names=exported.class_names,
            num_old=exported.num_old,
            split_fingerprint=exported.split_fingerprint,
        )
        return Checkpoint(path, meta, weights, None, _digest(meta.model_dump_json(), weights, None))
    content = load_safely(path, advice=_valid_beside)
    if not is_checkpoint(content):
        raise CheckpointError(
            f"{path}: not a checkpoint of mptctl; bring a state dict in with mptctl import {path} "
            "--arch NAME --class-names FILE"
        )
    return checkpoint_in(content, path)


def is_checkpoint(content: object) -> bool:
    """Tell whether the content of a file of torch is a checkpoint of ours, damaged or not."""
    return isinstance(content, dict) and content.get("format") == FORMAT


def checkpoint_in(content: dict[str, Any], path: Path) -> Checkpoint:
    """Verify the content of a checkpoint file, and make a `Checkpoint` of it.

    Args:
        content: of the file.
        path: of the file.

    Raises:
        CheckpointError: it is damaged, or of another version.
    """
    try:
        meta_json, model, training = content["meta"], content["model"], content["training"]
        _refuse_odd(model, training)
        found = _digest(meta_json, model, training)
        if content["digest"] != found:
            raise CheckpointError(
                f"{path}: damaged: digest expected {content['digest'][:16]}, found {found[:16]}"
                f"{_valid_beside(path)}"
            )
        version = json.loads(meta_json).get("schema_version")
        if version != SCHEMA_VERSION:
            raise CheckpointError(
                f"{path}: schema version {version}, this mptctl reads {SCHEMA_VERSION}; "
                "use the one that wrote it"
            )
        meta = CheckpointMeta.model_validate_json(meta_json)
        refuse_torch_program(meta.recipe.model.arch, str(path))
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: not a checkpoint: {one_line(error)[:120]}") from error
    return Checkpoint(path, meta, model, training, found)


def load_model(checkpoint: Checkpoint) -> nn.Module:
    """Rebuild the model of a checkpoint, on the CPU, with its weights.

    Raises:
        CheckpointError: the weights do not fit the architecture that the checkpoint names.
    """
    recipe = checkpoint.meta.recipe
    if recipe.model.arch in PROGRAMS:
        return load_program(recipe.model.arch, checkpoint.model, str(checkpoint.path))
    sizes = len(checkpoint.meta.class_names), recipe.data.image_size
    try:
        refuse_other_shapes(checkpoint.model, recipe.model, *sizes)
        model = build_model(recipe.model, *sizes)
    except UsageError as error:
        raise CheckpointError(f"{checkpoint.path}: names a network that there is not: {error}") from error
    except CheckpointError as error:
        raise CheckpointError(f"{checkpoint.path}: {error}") from error
    try:
        load_weights(model, checkpoint.model)
    except RuntimeError as error:
        raise CheckpointError(
            f"{checkpoint.path}: weights do not fit {recipe.model.arch}: {one_line(error)[:160]}"
        ) from error
    return model


def _refuse_odd(model: object, training: object) -> None:
    """Raise TypeError where the parts of a checkpoint are not of their types."""
    if not isinstance(model, dict) or not model:
        raise TypeError("its model is no state dict")
    for name, value in model.items():
        if not isinstance(name, str) or not isinstance(value, Tensor) or value.is_complex():
            raise TypeError(f"{name!r} of its model is no weight")
    if training is not None and not isinstance(training, dict):
        raise TypeError("its training state is none")


def _valid_beside(path: Path) -> str:
    """Words for a message: the newest checkpoint in the same folder that is whole, or that there is none."""
    beside: list[tuple[int, Path]] = []
    for other in path.parent.glob("*.pt"):
        with contextlib.suppress(OSError):  # a link to nothing, or in a circle
            if other != path and other.stat().st_size > 0:
                beside.append((other.stat().st_mtime_ns, other))
    for _, candidate in sorted(beside, reverse=True):
        with contextlib.suppress(Exception):  # whatever is wrong with it, it is not a valid checkpoint
            content = load_safely(candidate)
            if content["digest"] == _digest(content["meta"], content["model"], content["training"]):
                return f"; the newest valid one beside it is {candidate.name}"
    return "; there is no valid one beside it"


def _digest(meta_json: str, model: dict[str, Tensor], training: dict[str, Any] | None) -> str:
    """SHA-256 of a checkpoint's content, in hexadecimal."""
    state = hashlib.sha256(meta_json.encode())
    _hash_into(state, {"model": model, "training": training})
    return state.hexdigest()


def _hash_into(state: Any, value: Any) -> None:
    """Feed nested plain values and tensors to a hash, with types and shapes, so that no two look alike."""
    if isinstance(value, Tensor):
        tensor = value.detach().cpu().contiguous()
        state.update(f"T{tensor.dtype}{tuple(tensor.shape)}".encode())
        state.update(tensor.reshape(-1).view(torch.uint8).numpy().data)
    elif isinstance(value, dict):
        state.update(f"D{len(value)}".encode())
        for key, item in value.items():
            state.update(f"K{key!r}".encode())
            _hash_into(state, item)
    elif isinstance(value, (list, tuple)):
        state.update(f"L{len(value)}".encode())
        for item in value:
            _hash_into(state, item)
    else:
        state.update(f"V{value!r}".encode())
