"""Exported programs of torch (.pt2): read member by member, and only what is safe goes to torch's own loader.

That loader unpickles without restraint, evaluates text of the graph as Python and loads compiled libraries.
"""

from __future__ import annotations

import hashlib
import io
import logging
import re
import warnings
import zipfile
from pathlib import Path, PurePosixPath
from typing import Self

import torch
from torch import Tensor, nn

from mptctl.errors import CheckpointError, first_line, one_line, some
from mptctl.models.export_meta import KEY, ExportMeta, parse_export_meta, refuse_changed
from mptctl.models.pt2_graph import Unsafe, safe_config, safe_graph

GRAPH = "models/model.json"
SAMPLES = "data/sample_inputs/model.pt"
EXTRA = f"extra/{KEY}.json"
CONFIGS = ("data/weights/model_weights_config.json", "data/constants/model_constants_config.json")
# Tensors as bare bytes, and marks that torch writes into every archive.
BARE = re.compile(
    r"data/weights/weight_\d+|data/constants/tensor_\d+|archive_format|archive_version|byteorder|"
    r"\.data/version|\.data/serialization_id|\.format_version|\.storage_alignment",
    re.ASCII,
)
# A member that is many times larger than the file would only serve to fill the memory.
LARGEST_RATIO = 100


def read_pt2(path: Path) -> tuple[bytes, ExportMeta | None]:
    """A program as `Pt2Program` takes it, and what it says of itself; nothing of it was given to torch's loader.

    Raises:
        CheckpointError: it is missing, damaged, changed since it was exported, or holds what could run code.
    """
    try:
        content = path.read_bytes()
    except OSError as error:
        raise CheckpointError(f"{path}: cannot be read: {error.strerror or error}; check the path") from error
    members = safe_members(content, str(path))
    text = members.pop(EXTRA, None)
    meta = parse_export_meta(None if text is None else text.decode(errors="replace"), path)
    if meta is not None:
        refuse_changed(meta, pt2_content(content), path)
    return content, meta


def safe_members(content: bytes, where: str) -> dict[str, bytes]:
    """The members of an archive by their names below its own folder, each one looked at.

    Pickles are read by torch's restricted reader; the graph comes without what is not needed for an answer.

    Args:
        content: the archive.
        where: what to call it in messages.

    Raises:
        CheckpointError: it is damaged, or holds what could run code.
    """
    found: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(info.file_size for info in archive.infolist()) > LARGEST_RATIO * len(content):
                raise CheckpointError(f"{where}: refused: it unpacks to over {LARGEST_RATIO} times its size")
            for info in archive.infolist():
                name = info.filename.partition("/")[2]
                if name in found:
                    raise CheckpointError(f"{where}: refused: it holds {name} twice; export it again")
                found[name] = _safe_member(name, archive.read(info), where)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError) as error:
        raise CheckpointError(
            f"{where}: damaged, or not a program of torch: {one_line(error)[:120]}"
        ) from error
    except Unsafe as error:
        raise CheckpointError(
            f"{where}: refused: it holds {error}, which could run code; export it again, or as ONNX"
        ) from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{where}: damaged: {one_line(error)[:120]}; export it again") from error
    if missing := [name for name in (GRAPH, SAMPLES, *CONFIGS) if name not in found]:
        raise CheckpointError(f"{where}: not a program of torch.export: it has no {missing[0]}")
    return found


def _safe_member(name: str, content: bytes, where: str) -> bytes:
    if name == GRAPH:
        return safe_graph(content)
    if name == SAMPLES:
        _refuse_unsafe_pickle(content, name, where)
        return b""  # an answer needs no example of a picture, and no pickle then reaches torch's loader
    if name in CONFIGS:
        return safe_config(content)
    if BARE.fullmatch(name) or name == EXTRA:
        return content
    raise CheckpointError(
        f"{where}: refused: it holds {PurePosixPath(name).name[:60] or 'a file'!r}, which is neither graph nor weights "
        "and could run code; export it again, or as ONNX"
    )


def _refuse_unsafe_pickle(content: bytes, name: str, where: str) -> None:
    try:
        torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises many kinds for what is in a damaged or hostile file
        names = re.findall(r"GLOBAL ([\w.]+)", str(error))
        what = (
            some(sorted(set(names)))
            if names
            else f"a pickle that cannot be read safely ({one_line(error)[:80]})"
        )
        raise CheckpointError(
            f"{where}: refused: {name} holds {what}, which could run code; nothing of it was run; export it again"
        ) from None


def pt2_content(content: bytes) -> str:
    """SHA-256 of an archive's members but for what it says of itself, in hexadecimal."""
    state = hashlib.sha256()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        names = {info.filename.partition("/")[2]: info for info in archive.infolist()}
        for name in sorted(names.keys() - {EXTRA}):
            state.update(f"{name}\0{names[name].file_size}\0".encode())
            state.update(archive.read(names[name]))
    return state.hexdigest()


class Pt2Program(nn.Module):
    """A network that torch.export wrote, made of its safe members alone.

    Args:
        program: the archive; it is looked through once more, since it may come from a checkpoint.
        where: what to call it in messages.

    Raises:
        CheckpointError: it holds what could run code, or torch does not take it.
    """

    def __init__(self, program: bytes, where: str) -> None:
        super().__init__()
        # A new archive, so that what was looked at is what torch reads, however it looks for members.
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:
            for name, content in safe_members(program, where).items():
                archive.writestr(f"program/{name}", content)
        packed.seek(0)
        noise = logging.getLogger("torch.export")
        level = noise.level
        noise.setLevel(logging.CRITICAL)  # its trace of what is said below
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                self.program = torch.export.load(packed).module()
        except Exception as error:  # torch raises many kinds for what does not fit in a program
            raise CheckpointError(f"{where}: torch does not take it: {first_line(error)[:160]}") from error
        finally:
            noise.setLevel(level)
        self.where = where

    def train(self, mode: bool = True) -> Self:
        """A program is always as it was exported; torch refuses to change it."""
        self.training = False
        return self

    def forward(self, images: Tensor) -> Tensor:
        """images: (B, 3, S, S), normalised -> (B, C)."""
        try:
            logits = self.program(images.contiguous())
        except (RuntimeError, AssertionError, TypeError) as error:
            raise CheckpointError(
                f"{self.where}: cannot compute pictures of {tuple(images.shape)}: {first_line(error)[:160]}"
            ) from error
        if not isinstance(logits, Tensor) or logits.ndim != 2 or len(logits) != len(images):
            raise CheckpointError(f"{self.where}: its output is not one row of logits a picture")
        return logits
