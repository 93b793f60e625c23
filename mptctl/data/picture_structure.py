"""Checks the segments of JPEG files and the chunks of PNG files, whose faults decoders treat differently."""

from __future__ import annotations

import os
import struct
import zlib
from collections.abc import Iterator
from typing import IO

START_OF_JPEG, END_OF_JPEG = b"\xff\xd8", b"\xff\xd9"
START_OF_PNG, END_OF_PNG = b"\x89PNG\r\n\x1a\n", b"IEND"
# Second byte of the marker before the coded data of a JPEG file (ITU T.81, p. 32).
_SCAN = 0xDA
# Samples of a pixel by the colour type of a PNG file (PNG specification, 11.2.1).
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
# The chunk IHDR of a PNG file (PNG specification, 11.2.1).
_HEADER = struct.Struct(">IIBBBBB")
# Bytes that are decompressed at once.
_PIECE = 1 << 20


def is_in_order(stream: IO[bytes], *, is_jpeg: bool) -> bool:
    """Tell whether the segments of a JPEG header, or the chunks of a PNG file, are in their right order.

    Pillow also reads files with other bytes between segments, with a second PNG header, or with invalid chunk
    names; DALI does not.

    Args:
        stream: the file; its position changes.
        is_jpeg: True for a JPEG file, False for a PNG file.
    """
    if is_jpeg:
        stream.seek(len(START_OF_JPEG))
        while len(head := stream.read(4)) == 4 and head[0] == 0xFF:
            if head[1] == _SCAN:
                return True
            stream.seek(int.from_bytes(head[2:], "big") - 2, os.SEEK_CUR)
        return False
    heads = _read_chunk_heads(stream)
    kinds = [head[4:] for head in heads]
    return (
        kinds[:1] == [b"IHDR"]
        and kinds.count(b"IHDR") == 1
        and kinds[-1] == END_OF_PNG
        and int.from_bytes(heads[0][:4], "big") == 13
        # Letters, of which the third is a capital (PNG specification, 5.4).
        and all(kind.isalpha() and kind[2:3].isupper() for kind in kinds)
    )


def has_exif_chunk(stream: IO[bytes]) -> bool:
    """Tell whether a PNG file has a chunk of EXIF data; the position of its stream changes."""
    return any(head[4:] == b"eXIf" for head in _read_chunk_heads(stream))


def _read_chunk_heads(stream: IO[bytes]) -> list[bytes]:
    """Return size and name, 8 bytes, of each chunk of a PNG file, up to its end chunk."""
    stream.seek(len(START_OF_PNG))
    heads = []
    while len(head := stream.read(8)) == 8:
        heads.append(head)
        if head[4:] == END_OF_PNG:
            break
        stream.seek(int.from_bytes(head[:4], "big") + 4, os.SEEK_CUR)
    return heads


def find_png_fault(content: bytes) -> str:
    """Say what is wrong with the data of a PNG file whose chunks are in order; "" if nothing is wrong.

    Pillow also reads files with wrong checksums, and files that end early, whose missing rows it makes black.

    Args:
        content: bytes of the file.
    """
    data = []
    header = b""
    for kind, body, checksum in _read_chunks(content):
        is_critical = kind[:1].isupper()
        if is_critical and zlib.crc32(kind + body) != checksum:
            is_name = kind.isalpha()
            return f"the checksum of its {kind.decode()} is wrong" if is_name else "its chunks are damaged"
        if kind == b"IHDR":
            header = body
        elif kind == b"IDAT":
            data.append(body)
    width, height, depth, colour, packing, filters, interlaced = _HEADER.unpack(header)
    if packing or filters:  # only 0 is defined; Pillow ignores both
        return "its header names an unknown way of packing"
    row_bytes = 1 + (width * depth * _CHANNELS.get(colour, 1) + 7) // 8
    try:
        size, is_ended = _measure_unpacked(b"".join(data), most=2 * height * row_bytes + _PIECE)
    except zlib.error:
        return "its data are damaged"
    if not is_ended:
        return "its data do not come to an end"
    # The size of interlaced data is another one; there Pillow itself refuses a picture that ends early.
    if size < height * row_bytes and not interlaced:
        return "its data end before its last row"
    return ""


def _measure_unpacked(packed: bytes, most: int) -> tuple[int, bool]:
    """Decompress data piece by piece, and keep none of it.

    Args:
        packed: the compressed data.
        most: number of bytes after which it stops.

    Returns:
        Number of decompressed bytes, and True if the data came to their end.
    """
    unpacking = zlib.decompressobj()
    size = 0
    while size <= most and (piece := unpacking.decompress(packed, _PIECE)):
        packed = unpacking.unconsumed_tail
        size += len(piece)
    return size, unpacking.eof


def _read_chunks(content: bytes) -> Iterator[tuple[bytes, bytes, int]]:
    """Yield name, body and stored checksum of each chunk of a PNG file, up to its end chunk."""
    place = len(START_OF_PNG)
    while place + 12 <= len(content):
        size = int.from_bytes(content[place : place + 4], "big")
        end = place + 8 + size
        kind = content[place + 4 : place + 8]
        yield kind, content[place + 8 : end], int.from_bytes(content[end : end + 4], "big")
        if kind == END_OF_PNG:
            return
        place = end + 4
