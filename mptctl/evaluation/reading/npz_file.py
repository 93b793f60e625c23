"""Predictions in an .npz archive: each array's checksum is verified, also if logits stay on disk."""

from __future__ import annotations

import math
import struct
import zipfile
import zlib
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError, StorageError
from mptctl.evaluation.reading.columns import COLUMNS, LONGEST_VALUE, text_array, to_arrow, too_long
from mptctl.evaluation.reading.workspace import free_memory, shown_size

# The ways in which numpy compresses. Others are refused: one kilobyte of bzip2 can hold gigabytes, which the
# library unpacks even to read the first byte.
METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
# Bytes in memory for each byte of an array, while it is read and checked. Logits take one, as they are not
# converted.
SWELLING = 3


@dataclass(frozen=True)
class _Header:
    """The header of an array in the archive.

    Attributes:
        shape: of the array.
        fortran: True where the numbers are stored column by column.
        dtype: of the array.
        start: bytes of the header, after which the numbers begin.
    """

    shape: tuple[int, ...]
    fortran: bool
    dtype: np.dtype[Any]
    start: int

    @property
    def size(self) -> int:
        """Bytes of header and numbers together."""
        return self.start + math.prod(self.shape) * self.dtype.itemsize


def headers(path: Path) -> list[str]:
    """Read the names of the arrays."""
    with zipfile.ZipFile(path) as archive:
        return [name.removesuffix(".npy") for name in archive.namelist()]


def batches(path: Path, wanted: Sequence[str]) -> Generator[dict[str, Any]]:
    """Read some arrays, as one batch of the whole file.

    Yields:
        Arrow arrays by name, of text where the array is no column of predictions; `logits` as (N, C);
        `classes` as an array.

    Raises:
        DataError: as `_read`, or a value is no label, or an array beside predictions is not (N,).
    """
    arrays = _read(path, wanted)
    columns: dict[str, Any] = {}
    for key, values in arrays.items():
        if key in ("logits", "classes"):
            columns[key] = values
        elif key in COLUMNS:
            columns[key] = to_arrow(values, key, str(path))
        elif values.ndim != 1 or len(values) != len(arrays["id"]):
            raise DataError(f"{path}: `{key}` has shape {values.shape}; write one value for each id")
        elif values.dtype.kind == "b":
            columns[key] = text_array(np.where(values, "true", "false"))  # as Parquet's booleans are written
        else:
            text = np.char.decode(values, "utf-8") if values.dtype.kind == "S" else values.astype(np.str_)
            columns[key] = text_array(text)
    yield columns


def _read(path: Path, wanted: Sequence[str]) -> dict[str, NDArray[Any]]:
    """Read the wanted arrays of a file, by name; logits that are not compressed are mapped.

    Raises:
        DataError: an array is encrypted, is compressed in another way than numpy's, holds
            Python objects, or is not what its header or its checksum says.
        StorageError: an array does not fit into the free memory.
        zipfile.BadZipFile, and others of zipfile and numpy: no archive, or a damaged one.
    """
    # zipfile leaves a file open that it opens and cannot read, so it is opened here.
    with path.open("rb") as file, zipfile.ZipFile(file) as archive:
        members = {info.filename.removesuffix(".npy"): info for info in archive.infolist()}
        return {key: _read_array(path, archive, members[key], key) for key in wanted}


def _read_array(path: Path, archive: zipfile.ZipFile, info: zipfile.ZipInfo, key: str) -> NDArray[Any]:
    """Read one array of an archive, or map it if it is `logits` and not compressed.

    Raises:
        DataError: the array is encrypted, compressed in another way than numpy's, holds Python objects or
            texts of more than `LONGEST_VALUE`, or is not what its header or its checksum says.
        StorageError: the array does not fit into the free memory.
    """
    if info.flag_bits & 1:
        raise DataError(f"{path}: `{key}` is encrypted; write it without a password")
    if info.compress_type not in METHODS:
        raise DataError(
            f"{path}: `{key}` is compressed in a way that numpy does not write; write it with numpy.savez"
        )
    header = _read_header(archive, info)
    _check_header(path, header, info.file_size, key)
    if key == "logits" and info.compress_type == zipfile.ZIP_STORED and 0 not in header.shape:
        return _map_array(path, info, header, key)
    free = free_memory()
    needed = header.size * (1 if key == "logits" else SWELLING)
    if needed > free:
        raise StorageError(
            f"{path}: `{key}` needs {shown_size(needed)} of memory where {shown_size(free)} are "
            "free; write logits uncompressed (numpy.savez), then they stay on disk; write long tables as "
            "Parquet, which are read piece by piece"
        )
    with archive.open(info) as member:  # zipfile verifies the checksum when the last byte is read
        return np.asarray(np.lib.format.read_array(member, allow_pickle=False))


def _read_header(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> _Header:
    """Read the header of an array, in the format of version 1 or 2 of numpy."""
    with archive.open(info) as member:
        first_version = np.lib.format.read_magic(member) == (1, 0)
        read = np.lib.format.read_array_header_1_0 if first_version else np.lib.format.read_array_header_2_0
        return _Header(*read(member), member.tell())


def _check_header(path: Path, header: _Header, stored: int, key: str) -> None:
    """Raise DataError where an array, of `stored` bytes in the archive, is not safe to read by its header."""
    if header.dtype.hasobject:
        raise DataError(
            f"{path}: `{key}` holds Python objects, which cannot be read safely; write integers, text or "
            "floats"
        )
    if header.size != stored or min(header.shape, default=0) < 0:
        raise DataError(
            f"{path}: `{key}` is damaged: its header says {header.shape} {header.dtype}, {header.size} "
            f"bytes, and the archive holds {stored}; write it again"
        )
    if header.dtype.kind not in "US" or 0 in header.shape:
        return
    bytes_of_a_character = np.dtype(f"{header.dtype.kind}1").itemsize
    length = header.dtype.itemsize // bytes_of_a_character
    if not length:  # numpy would make of each such text one of a character
        raise DataError(f"{path}: `{key}` is damaged: its header says texts of no characters; write it again")
    if length > LONGEST_VALUE:
        raise too_long(path, key, length)


def _map_array(path: Path, info: zipfile.ZipInfo, header: _Header, key: str) -> NDArray[Any]:
    """Map an array that is stored in an archive without compression; all its bytes are read for the checksum.

    Raises:
        DataError: the file is cut, or the checksum is wrong.
    """
    with path.open("rb") as raw:
        raw.seek(info.header_offset)
        # The local header of zip has 30 bytes. The last four are the lengths of name and extra field, which
        # follow before the content.
        name_length, extra_length = struct.unpack("<HH", raw.read(30)[26:])
    begin = info.header_offset + 30 + name_length + extra_length
    if info.compress_size != info.file_size or begin + info.file_size > path.stat().st_size:
        raise DataError(f"{path}: `{key}` is cut or damaged; write it again")
    content = np.memmap(path, np.uint8, "r", begin, (info.file_size,))
    if zlib.crc32(content.data) != info.CRC:
        raise DataError(
            f"{path}: the checksum of `{key}` is wrong, so its numbers are damaged; write it again"
        )
    numbers = content[header.start :].view(header.dtype)
    return numbers.reshape(header.shape, order="F" if header.fortran else "C")
