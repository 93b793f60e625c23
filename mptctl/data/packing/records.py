"""The description of a packed copy: ``pack.json``, and a line for each picture in ``pack-files.jsonl``."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from mptctl.errors import DataError, MptctlError, UsageError
from mptctl.files import PARTIAL, Model, read_bounded, replacing, storage_error, write_atomically
from mptctl.names import PackForm
from mptctl.recipe import differences

PACK_NAME, FILES_NAME = "pack.json", "pack-files.jsonl"
# Bytes of pack.json at most.
MOST_BYTES = 2**20
# What was done with a picture; the fields of `Packed` explain each word.
How = Literal["resized", "rewritten", "copied"]


class PackRequest(Model):
    """The source of a packed copy, and the form of the copy."""

    version: Literal[1] = Field(1, description="form of the packed copy")
    source: str = Field(description="place of the originals")
    kind: str = Field("imagefolder", description="kind of the source, by its name in the table of sources")
    columns: dict[str, str] = Field({}, description="names of the columns that --column named, by role")
    digest: str = Field(
        "", description="digest of the names, sizes and times of the source's tables; empty for folders"
    )
    to: PackForm = Field("folder", description="form of the copy")
    short_side: int | None = Field(description="shorter side of a picture at most, in pixels; null: no limit")


class Packed(Model):
    """The contents of a packed copy, as ``pack.json`` has them."""

    request: PackRequest = Field(description="the source, and the form of the copy")
    complete: bool = Field(description="whether every picture of the source is in the copy")
    pictures: int = Field(0, description="pictures in the copy")
    resized: int = Field(0, description="pictures that were made smaller and encoded again")
    rewritten: int = Field(0, description="pictures that were small enough, and were encoded again as RGB")
    copied: int = Field(0, description="pictures that were copied byte for byte")
    source_bytes: int = Field(0, description="bytes of the originals")
    packed_bytes: int = Field(0, description="bytes of the copy's pictures")


class PackReport(Packed):
    """The object that ``mptctl pack --json`` prints."""

    path: str = Field(description="folder of the packed copy")
    classes: int = Field(description="classes of the source")
    shards: int = Field(0, description="tar shards in the copy")
    notes: list[str] = Field([], description="notes on the source")
    next_place: list[str] = Field(description="arguments of `mptctl split` for this copy")
    found: int = Field(description="pictures that an earlier call had packed")
    seconds: float = Field(description="how long this call took")


@dataclass(frozen=True)
class PackedFile:
    """One picture of a packed copy, and its original.

    Attributes:
        path: path below the folder of the copy, or name within the shard.
        source_bytes, source_mtime: bytes of the original, and nanoseconds of its last change.
        packed_bytes: bytes of the picture in the copy.
        how: what was done with the picture.
        id: id at the source; "" where it is the path.
        shard, shard_bytes: name of the shard and its bytes; "" and 0 in a copy as folders.
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
        """The picture's id at the source."""
        return self.id or self.path

    @property
    def file(self) -> str:
        """Path below the copy of the picture's file, or of its shard."""
        return self.shard or self.path

    @property
    def size(self) -> int:
        """Bytes of that file."""
        return self.shard_bytes if self.shard else self.packed_bytes

    def line(self) -> bytes:
        """Return the record as a line of ``pack-files.jsonl``: a JSON array and a line feed."""
        return json.dumps(astuple(self)).encode() + b"\n"


def refuse_other_copy(out: Path, request: PackRequest) -> None:
    """Refuse a folder that is not empty and does not hold a copy of the same request.

    Raises:
        UsageError: the folder holds something else.
        DataError: the folder's ``pack.json`` cannot be read.
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


def warn_of_incomplete_copy(folder: Path, then: str) -> list[str]:
    """Return a warning where a folder holds a copy that is not complete; else [], also without a copy.

    Args:
        folder: of the pictures.
        then: what to do when the copy is complete, for the end of the warning.
    """
    try:
        packed = Packed.model_validate_json(read_bounded(folder / PACK_NAME, MOST_BYTES, PACK_NAME))
    except (OSError, MptctlError, ValidationError):
        return []  # a file of another program
    if packed.complete:
        return []
    return [
        f"{folder}: is an incomplete copy of {packed.request.source}, so pictures may be missing; give its "
        f"mptctl pack command again, which goes on, {then}"
    ]


def read_packed_files(out: Path) -> dict[str, PackedFile]:
    """Read the records of a copy, by id at the source; {} without ``pack-files.jsonl``.

    Lines that cannot be parsed are left out: a kill may have cut off the last one.

    Raises:
        DataError: the file cannot be read.
    """
    try:
        lines = (out / FILES_NAME).read_bytes().split(b"\n")
    except FileNotFoundError:
        return {}
    except OSError as error:
        raise DataError(f"{out / FILES_NAME}: cannot be read ({error.strerror}); remove it") from error
    files: dict[str, PackedFile] = {}
    for line in lines:
        try:
            file = PackedFile(*json.loads(line))
        except (ValueError, TypeError):
            continue
        files[file.source_id] = file
    return files


def write_packed_files(out: Path, files: Iterable[PackedFile]) -> None:
    """Write ``pack-files.jsonl`` of a copy anew.

    Raises:
        StorageError: the file cannot be written; the earlier one stays.
    """
    with replacing(out / FILES_NAME) as stream:
        stream.writelines(file.line() for file in files)


def append_packed_files(out: Path, files: Iterable[PackedFile]) -> None:
    """Append records to ``pack-files.jsonl`` of a copy.

    Raises:
        StorageError: the file cannot be written.
    """
    lines = b"".join(file.line() for file in files)
    try:
        with open(out / FILES_NAME, "ab", buffering=0) as stream:
            while lines:
                lines = lines[stream.write(lines) :]
    except OSError as error:
        raise storage_error(out / FILES_NAME, error) from error


def write_packed(out: Path, packed: Packed) -> None:
    """Write ``pack.json`` of a copy anew.

    Raises:
        StorageError: the file cannot be written; the earlier one stays.
    """
    write_atomically(out / PACK_NAME, (packed.model_dump_json(indent=2) + "\n").encode())


def count_files(request: PackRequest, files: Collection[PackedFile], *, complete: bool) -> Packed:
    """Sum up the records of a copy: its pictures, what was done with them, and their bytes."""
    counts = {how: sum(file.how == how for file in files) for how in ("resized", "rewritten", "copied")}
    return Packed(
        request=request,
        complete=complete,
        pictures=len(files),
        source_bytes=sum(file.source_bytes for file in files),
        packed_bytes=sum(file.packed_bytes for file in files),
        **counts,
    )
