"""The members of a tar file: their names, and where their bytes begin; no byte of a picture is read."""

from __future__ import annotations

import io
import os
import re
import zlib
from collections.abc import Iterator
from typing import NamedTuple

from mptctl.errors import DataError

_BLOCK = 512
# Read at once: the header of a picture, and often a label's before it, which is a block or two.
_PIECE = 4 * _BLOCK
# Kinds of members: files; what holds the name, or further facts, of the next one.
_FILES, _LONG_NAME, _PAX, _GLOBAL_PAX = (b"0", b"\0", b"7"), b"L", b"x", b"g"
# The lower half of an Adler-32 is one more than the sum of the bytes, modulo this (RFC 1950); zlib computes
# it faster than Python adds up bytes.
_ADLER_MODULUS = 65521
_PLACE_OF_SUM = slice(148, 156)
_PAX_RECORD = re.compile(rb"\d+ path=([^\n]*)\n")
_INDEX_HEAD = re.compile(r"v1\.2 \d+")


class Member(NamedTuple):
    """A file within a tar file.

    Attributes:
        name: as it stands there.
        start, size: where its bytes begin, and how many there are.
        content: of a small file that was read on the way; None of others.
    """

    name: str
    start: int
    size: int
    content: bytes | None = None


class Damage(DataError):
    """A tar file is damaged; the members before the damage were given already.

    Args:
        offset: where.
        problem: what.
    """

    def __init__(self, offset: int, problem: str) -> None:
        super().__init__(f"offset {offset:,}: {problem}")
        self.offset, self.problem = offset, problem


class Window(io.RawIOBase):
    """Some bytes of an open file, as a file of their own; reads of many threads do not disturb each other.

    Args:
        descriptor: of the file.
        start, size: of the bytes.
    """

    def __init__(self, descriptor: int, start: int, size: int) -> None:
        self._descriptor, self._start, self._size, self._place = descriptor, start, size, 0

    def readable(self) -> bool:
        """True."""
        return True

    def seekable(self) -> bool:
        """True."""
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Go to a place within the bytes."""
        base = {os.SEEK_SET: 0, os.SEEK_CUR: self._place, os.SEEK_END: self._size}[whence]
        if base + offset < 0:
            raise OSError("before the beginning")
        self._place = base + offset
        return self._place

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]  # RawIOBase takes any buffer
        """Read on from the place."""
        count = max(0, min(len(buffer), self._size - self._place))
        data = os.pread(self._descriptor, count, self._start + self._place)
        buffer[: len(data)] = data
        self._place += len(data)
        return len(data)


def members(descriptor: int, size: int) -> Iterator[Member]:
    """Every file of a tar file, from header to header: POSIX, GNU, and the oldest form.

    Args:
        descriptor: of the open file.
        size: its bytes.

    Raises:
        Damage: a header that is none, a member that goes beyond the end, or no end marker; said where it is
            met, after the members before it.
    """
    place, piece, begin = 0, b"", 0
    long_name: str | None = None
    while True:
        at = place - begin
        if at + _BLOCK > len(piece):
            piece, begin, at = os.pread(descriptor, _PIECE, place), place, 0
        header = piece[at : at + _BLOCK]
        if len(header) < _BLOCK:
            raise Damage(place, "cut off: the end marker of the tar file is missing")
        if header[0] == 0 and not any(header):
            return
        count = _size_in(header, place)
        start, kind = place + _BLOCK, header[156:157]
        place = start + (count + _BLOCK - 1) // _BLOCK * _BLOCK
        if start + count > size:
            raise Damage(start, f"cut off: a member of {count:,} bytes goes beyond the end of the tar file")
        content = piece[at + _BLOCK : at + _BLOCK + count] if place <= begin + len(piece) else None
        if kind in _FILES:
            yield Member(_name(header) if long_name is None else long_name, start, count, content)
            long_name = None
        elif kind in (_LONG_NAME, _PAX):
            data = os.pread(descriptor, count, start) if content is None else content
            found = data.rstrip(b"\0") if kind == _LONG_NAME else b"".join(_PAX_RECORD.findall(data)[-1:])
            long_name = os.fsdecode(found) if found else long_name
        elif kind != _GLOBAL_PAX:
            long_name = None


def indexed_members(descriptor: int, size: int, index: str) -> list[Member] | None:
    """The files of a tar file by the index that ``wds2idx`` wrote; None where the two do not fit.

    Args:
        descriptor: of the open file.
        size: its bytes.
        index: the text of the ``.idx`` file.
    """
    head, *lines = index.splitlines()
    words = [line.split(" ") for line in lines]
    if not _INDEX_HEAD.fullmatch(head) or not words or any(len(line) % 4 for line in words):
        return None  # of an earlier version, or a name has a blank in it
    try:
        found = [
            Member(line[i + 3], int(line[i + 1]), int(line[i + 2]))
            for line in words
            for i in range(0, len(line), 4)
        ]
        for member in (found[0], found[-1]):
            header = os.pread(descriptor, _BLOCK, member.start - _BLOCK)
            if _size_in(header, 0) != member.size or not member.name.endswith(_name(header)):
                return None
    except (ValueError, OSError, DataError):
        return None
    end = found[-1].start + (found[-1].size + _BLOCK - 1) // _BLOCK * _BLOCK
    return found if end < size and os.pread(descriptor, _BLOCK, end) == bytes(_BLOCK) else None


def _size_in(header: bytes, place: int) -> int:
    """The size in bytes of the member after a header; raises Damage where the header is none or damaged."""
    field = header[124:136]
    try:
        # GNU's form of more than 8 GB, or digits in octal.
        size = int.from_bytes(field[1:], "big") if field[0] & 0x80 else int(field.rstrip(b"\0 ") or b"0", 8)
        told = int(header[_PLACE_OF_SUM].rstrip(b"\0 "), 8)
    except (ValueError, IndexError) as error:
        raise Damage(place, "no header of a member: the tar file is damaged") from error
    # The sum counts its own place as blanks.
    whole = told - 8 * ord(" ") + sum(header[_PLACE_OF_SUM])
    if size < 0 or (1 + whole) % _ADLER_MODULUS != zlib.adler32(header) & 0xFFFF:
        raise Damage(place, "the checksum of a member's header is wrong: the tar file is damaged")
    return size


def _name(header: bytes) -> str:
    """The name of a member in its header; POSIX splits a long one into prefix and name."""
    name = header[:100].partition(b"\0")[0]
    prefix = header[345:500].partition(b"\0")[0] if header[257:263] == b"ustar\0" else b""
    return os.fsdecode(prefix + b"/" + name if prefix else name)
