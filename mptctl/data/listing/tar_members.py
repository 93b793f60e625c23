"""Lists the members of a tar file with name, size and place, without reading the pictures."""

from __future__ import annotations

import io
import math
import os
import re
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from PIL.ContainerIO import ContainerIO

from mptctl.errors import DataError

_BLOCK = 512
# Bytes read at once: enough for the header of a label's file, the label, and the header of the next picture.
_PIECE = 4 * _BLOCK
# Kinds of members: files; GNU's long name of the next file; POSIX facts of the next file; of all files.
_FILES, _LONG_NAME, _PAX, _GLOBAL_PAX = (b"0", b"\0", b"7"), b"L", b"x", b"g"
# The lower half of an Adler-32 is one more than the sum of the bytes, modulo this (RFC 1950); zlib computes
# it faster than Python adds up bytes.
_ADLER_MODULUS = 65521
# Bytes of a header that hold its checksum.
_PLACE_OF_SUM = slice(148, 156)
_PAX_RECORD = re.compile(rb"\d+ path=([^\n]*)\n")


class Member(NamedTuple):
    """A file within a tar file.

    Attributes:
        name: path of the file within the tar file.
        start: offset of its first byte in the tar file.
        size: number of its bytes.
        content: its bytes where they came along with the header; else None.
    """

    name: str
    start: int
    size: int
    content: bytes | None = None


class DamagedTar(DataError):
    """A tar file is damaged.

    Args:
        offset: byte of the tar file at which the damage begins.
        problem: what is wrong there.
    """

    def __init__(self, offset: int, problem: str) -> None:
        super().__init__(f"offset {offset:,}: {problem}")
        self.offset, self.problem = offset, problem


class FileRange(ContainerIO[bytes]):  # type: ignore[misc]  # Pillow exports it untyped
    """A range of bytes of an open file, as a file of its own."""

    def fileno(self) -> int:
        """Raise UnsupportedOperation: libtiff would read the open file from its beginning."""
        raise io.UnsupportedOperation("a range of a file has no descriptor")


def read_members(descriptor: int, size: int) -> Iterator[Member]:
    """Yield the files of a tar file of POSIX's, GNU's or the oldest form, by reading header after header.

    Args:
        descriptor: descriptor of the open tar file.
        size: number of its bytes.

    Raises:
        DamagedTar: a header is damaged, a member goes beyond the end, or the end marker is missing; raised
            after the members before the damage.
    """
    # `place` is the offset of the next header in the tar file, `at` in the piece that was read last.
    place, piece, piece_start = 0, b"", 0
    long_name: str | None = None
    while True:
        at = place - piece_start
        if at + _BLOCK > len(piece):
            piece, piece_start, at = os.pread(descriptor, _PIECE, place), place, 0
        header = piece[at : at + _BLOCK]
        if len(header) < _BLOCK:
            raise DamagedTar(place, "cut off: the end marker of the tar file is missing")
        if header[0] == 0 and not any(header):
            return
        member_size = _read_size(header, place)
        start, kind = place + _BLOCK, header[156:157]
        place = start + whole_blocks(member_size)
        if start + member_size > size:
            raise DamagedTar(
                start, f"cut off: a member of {member_size:,} bytes goes beyond the end of the tar file"
            )
        content = (
            piece[at + _BLOCK : at + _BLOCK + member_size] if place <= piece_start + len(piece) else None
        )
        if kind in _FILES:
            yield Member(_read_name(header) if long_name is None else long_name, start, member_size, content)
            long_name = None
        elif kind in (_LONG_NAME, _PAX):
            data = os.pread(descriptor, member_size, start) if content is None else content
            encoded = data.rstrip(b"\0") if kind == _LONG_NAME else b"".join(_PAX_RECORD.findall(data)[-1:])
            long_name = os.fsdecode(encoded) if encoded else long_name
        elif kind != _GLOBAL_PAX:
            long_name = None


def whole_blocks(size: int) -> int:
    """Return the bytes that a member of ``size`` bytes takes up in a tar file: whole blocks of 512."""
    return math.ceil(size / _BLOCK) * _BLOCK


def _read_size(header: bytes, place: int) -> int:
    """Return the size in bytes of a member, from its header.

    Args:
        header: the block before the member.
        place: offset of the header in the tar file, for the error.

    Raises:
        DamagedTar: the block is no header, or its checksum is wrong.
    """
    field = header[124:136]
    try:
        # GNU's form of more than 8 GB, or digits in octal.
        size = int.from_bytes(field[1:], "big") if field[0] & 0x80 else int(field.rstrip(b"\0 ") or b"0", 8)
        stored_sum = int(header[_PLACE_OF_SUM].rstrip(b"\0 "), 8)
    except (ValueError, IndexError) as error:
        raise DamagedTar(place, "no header of a member: the tar file is damaged") from error
    # The stored sum counts its own eight bytes as blanks.
    expected_sum = stored_sum - 8 * ord(" ") + sum(header[_PLACE_OF_SUM])
    if size < 0 or (1 + expected_sum) % _ADLER_MODULUS != zlib.adler32(header) & 0xFFFF:
        raise DamagedTar(place, "the checksum of a member's header is wrong: the tar file is damaged")
    return size


def _read_name(header: bytes) -> str:
    """Return the name of a member from its header; POSIX splits a long name into a prefix and a name."""
    name = header[:100].partition(b"\0")[0]
    prefix = header[345:500].partition(b"\0")[0] if header[257:263] == b"ustar\0" else b""
    return os.fsdecode(prefix + b"/" + name if prefix else name)
