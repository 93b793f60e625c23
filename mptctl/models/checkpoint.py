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

from mptctl.errors import CheckpointError, UsageError, one_line, some
from mptctl.files import Model, write_atomically
from mptctl.models.networks import build_model, build_outline
from mptctl.models.programs import EXPORT_READERS, ONNX, load_program, read_exported
from mptctl.models.records import Adjustment, BiasPath
from mptctl.models.state_dict import fit_weights, load_safely, load_weights
from mptctl.recipe import Recipe

FORMAT = "mptctl-checkpoint"
SCHEMA_VERSION = 1


class CheckpointMeta(Model):
    """The description that a checkpoint file carries: recipe, classes, progress, figures."""

    schema_version: int = Field(SCHEMA_VERSION, description="of this file format")
    origin: Literal["trained", "imported"] = Field(
        "trained", description="trained here, or brought in by import"
    )
    recipe: Recipe = Field(description="the run's complete recipe")
    class_names: tuple[str, ...] = Field(description="in the order of the model's logits")
    num_old: int = Field(description="number of old classes among class_names")
    split_fingerprint: str | None = Field(None, description="of the split; null for an imported model")
    epoch: int = Field(0, description="finished epochs")
    step_in_epoch: int = Field(0, description="optimizer steps done in the epoch that is not finished")
    global_step: int = Field(0, description="optimizer steps done in all")
    metrics: dict[str, float | None] = Field(
        {}, description="validation figures at the time of saving, fractions"
    )
    best_error: float | None = Field(None, description="lowest validation error so far, a fraction")
    adjustment: Adjustment | None = Field(None, description="what `adjust` changed after training")
    bias_path: BiasPath | None = Field(
        None, description="k of each epoch so far; null unless a flip budget moves k"
    )
    teachers: dict[str, str] = Field({}, description="role to digest of each teacher's checkpoint")
    versions: dict[str, str] = Field(
        {}, description="versions of Python and of the packages that computed it"
    )
    git_commit: str | None = Field(
        None, description="commit of the checkout that the code ran from; null without a checkout"
    )
    jpeg_decoder: str | None = Field(
        None,
        description="decoder of JPEG files in training; null for other pictures, and from earlier versions",
    )


@dataclass(frozen=True)
class Checkpoint:
    """A checkpoint that was read and verified.

    Attributes:
        path: the file that was read.
        meta: the file's description.
        model: the model's state dict, on the CPU.
        training: optimizer and random state, for resuming; None if training cannot go on from this file.
        digest: SHA-256 over meta, model and training, in hexadecimal.
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
        path: the file to write.
        meta: the description to store.
        model: the model's state dict.
        training: optimizer and random state, of tensors and plain values.
        keep_previous: path to which a former file at ``path`` is moved; None: the former file is lost.

    Returns:
        The digest of the content, as in `Checkpoint`.

    Raises:
        StorageError: the disk is full or the folder cannot be written; the former file stays.
    """
    meta_json = meta.model_dump_json()
    digest = _compute_digest(meta_json, model, training)
    buffer = io.BytesIO()
    content = {"format": FORMAT, "meta": meta_json, "model": model, "training": training, "digest": digest}
    torch.save(content, buffer)
    # The view is released at once: after an error, CPython 3.12.1 crashes if garbage collection releases it.
    with buffer.getbuffer() as view:
        write_atomically(path, view, keep_previous)
    return digest


def load_checkpoint(path: Path) -> Checkpoint:
    """Read a checkpoint or an exported model (.onnx, .safetensors) and verify its digest; run no code in it.

    An exported model gets a description of origin "imported".

    Raises:
        CheckpointError: the file is missing, cut short, damaged, foreign, or would run code when unpickled.
        UsageError: the package that reads exported models is not installed.
    """
    if path.suffix.lower() in EXPORT_READERS:
        exported, weights, arch = read_exported(path)
        meta = CheckpointMeta(
            origin="imported",
            recipe=exported.recipe(arch),
            class_names=exported.class_names,
            num_old=exported.num_old,
            split_fingerprint=exported.split_fingerprint,
        )
        return Checkpoint(path, meta, weights, None, _compute_digest(meta.model_dump_json(), weights, None))
    content = load_safely(path, advice=_newest_valid_beside)
    if not is_checkpoint(content):
        raise CheckpointError(
            f"{path}: not a checkpoint of mptctl; bring a state dict in with mptctl import {path} "
            "--arch NAME --class-names FILE"
        )
    return verify_checkpoint(content, path)


def is_checkpoint(content: object) -> bool:
    """Tell whether unpickled content has the format mark of an mptctl checkpoint; it may still be damaged."""
    return isinstance(content, dict) and content.get("format") == FORMAT


def verify_checkpoint(content: dict[str, Any], path: Path) -> Checkpoint:
    """Verify the unpickled content of a checkpoint file and return it as a `Checkpoint`.

    Args:
        content: of a file for which `is_checkpoint` is true.
        path: of the file, for messages and for `Checkpoint.path`.

    Raises:
        CheckpointError: the content is damaged, of another schema version, or a program of torch.export.
    """
    try:
        meta_json, model, training = content["meta"], content["model"], content["training"]
        _refuse_wrong_types(model, training)
        digest = _compute_digest(meta_json, model, training)
        if content["digest"] != digest:
            raise CheckpointError(
                f"{path}: damaged: digest expected {content['digest'][:16]}, found {digest[:16]}"
                f"{_newest_valid_beside(path)}"
            )
        version = json.loads(meta_json).get("schema_version")
        if version != SCHEMA_VERSION:
            raise CheckpointError(
                f"{path}: schema version {version}, this mptctl reads {SCHEMA_VERSION}; "
                "use the one that wrote it"
            )
        meta = CheckpointMeta.model_validate_json(meta_json)
    except (KeyError, TypeError, AttributeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: not a checkpoint: {one_line(error)[:120]}") from error
    return Checkpoint(path, meta, model, training, digest)


def load_model(checkpoint: Checkpoint) -> nn.Module:
    """Rebuild the model of a checkpoint, on the CPU, with its weights.

    Raises:
        CheckpointError: the checkpoint names an unknown architecture, or the weights do not fit it.
        UsageError: onnxruntime, which an ONNX model needs, is not installed.
    """
    recipe = checkpoint.meta.recipe
    if recipe.model.arch == ONNX:
        return load_program(checkpoint.model, str(checkpoint.path))
    num_classes, image_size = len(checkpoint.meta.class_names), recipe.data.image_size
    try:
        # Compared before the network is built, since it may be too large for memory.
        outline = build_outline(recipe.model, num_classes, image_size).state_dict()
        unlike = fit_weights(outline, checkpoint.model).unlike
        if unlike:
            raise CheckpointError(
                f"{checkpoint.path}: weights do not fit {recipe.model.arch}: {some(unlike)}"
            )
        model = build_model(recipe.model, num_classes, image_size)
    except UsageError as error:
        raise CheckpointError(f"{checkpoint.path}: names a network that there is not: {error}") from error
    load_weights(model, checkpoint.model)
    return model


def _refuse_wrong_types(model: object, training: object) -> None:
    """Raise TypeError unless ``model`` is a state dict of real tensors and ``training`` a dict or None."""
    if not isinstance(model, dict) or not model:
        raise TypeError("its model is no state dict")
    for name, value in model.items():
        if not isinstance(name, str) or not isinstance(value, Tensor) or value.is_complex():
            raise TypeError(f"{name!r} of its model is no weight")
    if training is not None and not isinstance(training, dict):
        raise TypeError("its training state is none")


def _newest_valid_beside(path: Path) -> str:
    """End of a message: the newest valid checkpoint beside a damaged one, or that there is none."""
    dated: list[tuple[int, Path]] = []
    for other in path.parent.glob("*.pt"):
        with contextlib.suppress(OSError):  # a broken or circular link
            if other != path and other.stat().st_size > 0:
                dated.append((other.stat().st_mtime_ns, other))
    for _, candidate in sorted(dated, reverse=True):
        with contextlib.suppress(Exception):  # reading a damaged file raises many kinds of errors
            content = load_safely(candidate)
            if content["digest"] == _compute_digest(content["meta"], content["model"], content["training"]):
                return f"; the newest valid one beside it is {candidate.name}"
    return "; there is no valid one beside it"


def _compute_digest(meta_json: str, model: dict[str, Tensor], training: dict[str, Any] | None) -> str:
    """Compute the SHA-256 of a checkpoint's description, weights and training state, in hexadecimal."""
    state = hashlib.sha256(meta_json.encode())
    _hash_into(state, {"model": model, "training": training})
    return state.hexdigest()


def _hash_into(state: Any, value: Any) -> None:
    """Update a hash with nested plain values and tensors.

    Types, shapes and lengths are hashed too, so that different content never gives the same bytes.

    Args:
        state: a hash of `hashlib`, updated in place.
        value: tensors, dicts, lists, tuples and values with a stable `repr`.
    """
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
