"""The description of a packed copy: ``pack.json``, and a line for each picture in ``pack-files.jsonl``."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from mptctl.errors import DataError, UsageError
from mptctl.files import PARTIAL, Model, replacing, storage_error
from mptctl.names import PackForm
from mptctl.recipe import differences

PACK_NAME, FILES_NAME = "pack.json", "pack-files.jsonl"
# The fate of a picture; `Packed` has a sentence on each for a person.
How = Literal["resized", "rewritten", "copied"]


class PackRequest(Model):
    """From what a packed copy is made."""

    version: Literal[1] = Field(1, description="form of the packed copy")
    source: str = Field(description="place of the originals")
    kind: str = Field("imagefolder", description="what it is, by its name in the table of sources")
    columns: dict[str, str] = Field({}, description="its columns that were named, by what they say")
    digest: str = Field("", description="of the names, sizes and times of its tables; empty for folders")
    to: PackForm = Field("folder", description="form of the copy")
    short_side: int | None = Field(description="shorter side of a picture at most, in pixels; null: any")
    quality: int = Field(description="quality of JPEGs that are written, in Pillow's scale")
    chroma: Literal["4:2:0"] = Field(
        "4:2:0", description="colour of JPEGs that are written: of half the size"
    )


class Packed(Model):
    """The contents of a packed copy; ``pack.json`` is this object."""

    request: PackRequest = Field(description="from what it is made")
    complete: bool = Field(description="whether every picture of the source is in it")
    pictures: int = Field(0, description="pictures in it")
    resized: int = Field(0, description="of these, made smaller and written anew")
    rewritten: int = Field(0, description="of these, small already and written anew as RGB")
    copied: int = Field(0, description="of these, small already and copied byte for byte")
    source_bytes: int = Field(0, description="bytes of the originals")
    packed_bytes: int = Field(0, description="bytes of the copy's pictures")


class PackReport(Packed):
    """The object that ``mptctl pack --json`` prints."""

    path: str = Field(description="folder of the packed copy")
    classes: int = Field(description="classes of the source")
    shards: int = Field(0, description="tar shards in it")
    notes: list[str] = Field([], description="what there is to know of the source")
    next_place: list[str] = Field(description="arguments with which `mptctl split` takes it")
    found: int = Field(description="pictures that were there already from an earlier call")
    seconds: float = Field(description="how long this call took")


@dataclass(frozen=True)
class PackedFile:
    """One picture of a packed copy: what the original was, and what came of it.

    Attributes:
        path: below the copy, or name within its shard.
        source_bytes, source_mtime: size of the original, and its time of change in nanoseconds.
        packed_bytes: size of the copy.
        how: what was done.
        id: of the source, where it is not the path.
        shard, shard_bytes: the file that it lies in, and its size.
    """

    path: str
    source_bytes: int
    source_mtime: int
    packed_bytes: int
    how: How
    id: str = ""
    shard: str = ""
    shard_bytes: int = 0

    @property
    def source_id(self) -> str:
        """The id of the original."""
        return self.id or self.path

    def line(self) -> bytes:
        """A JSON array and a line's end."""
        return json.dumps(astuple(self)).encode() + b"\n"


def refuse_other(out: Path, request: PackRequest) -> None:
    """Take a folder that is empty, or holds a copy of the same request.

    Raises:
        UsageError: it holds something else.
        DataError: its ``pack.json`` cannot be read.
    """
    path = out / PACK_NAME
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        if any(not entry.name.endswith(PARTIAL) for entry in out.iterdir()):
            raise UsageError(f"{out}: is not empty and holds no {PACK_NAME}; name another folder") from None
        return
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    try:
        before = Packed.model_validate_json(content).request
    except ValidationError as error:
        raise DataError(f"{path}: is no {PACK_NAME} of this version; name another folder") from error
    changed = [f"{key}: {was} -> {now}" for key, was, now in differences(before, request)]
    if changed:
        raise UsageError(f"{out}: holds another copy ({'; '.join(changed)}); name another folder")


def read_files(out: Path) -> dict[str, PackedFile]:
    """The lines of a copy by the originals' ids; what a kill left of the last line does not count."""
    try:
        lines = (out / FILES_NAME).read_bytes().split(b"\n")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DataError(f"{out / FILES_NAME}: cannot be read ({error.strerror}); remove it") from error
    found: dict[str, PackedFile] = {}
    for line in lines:
        try:
            file = PackedFile(*json.loads(line))
        except (ValueError, TypeError):
            continue
        found[file.source_id] = file
    return found


def write_files(out: Path, files: Iterable[PackedFile]) -> None:
    """Replace the lines of a copy.

    Raises:
        StorageError: they cannot be written.
    """
    with replacing(out / FILES_NAME) as stream:
        stream.writelines(file.line() for file in files)


def append_files(out: Path, files: Iterable[PackedFile]) -> None:
    """Add lines to those of a copy.

    Raises:
        StorageError: they cannot be written.
    """
    lines = b"".join(file.line() for file in files)
    try:
        with open(out / FILES_NAME, "ab", buffering=0) as stream:
            while lines:
                lines = lines[stream.write(lines) :]
    except OSError as error:
        raise storage_error(out / FILES_NAME, error) from error


def write_packed(out: Path, packed: Packed) -> None:
    """Replace ``pack.json``.

    Raises:
        StorageError: it cannot be written.
    """
    with replacing(out / PACK_NAME) as stream:
        stream.write((packed.model_dump_json(indent=2) + "\n").encode())


def count_files(request: PackRequest, files: Iterable[PackedFile], *, complete: bool) -> Packed:
    """Count what became of pictures, and their bytes."""
    files = list(files)
    counts = {how: sum(file.how == how for file in files) for how in ("resized", "rewritten", "copied")}
    return Packed(
        request=request,
        complete=complete,
        pictures=len(files),
        source_bytes=sum(file.source_bytes for file in files),
        packed_bytes=sum(file.packed_bytes for file in files),
        **counts,
    )
