"""The segments of a JPEG and the chunks of a PNG, of which decoders tolerate different faults."""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator
from typing import IO

START_OF_JPEG, END_OF_JPEG = b"\xff\xd8", b"\xff\xd9"
START_OF_PNG, END_OF_PNG = b"\x89PNG\r\n\x1a\n", b"IEND"
# Second byte of the marker before a JPEG's coded data (ITU T.81, p. 32).
_SCAN = 0xDA
# Samples a pixel, by a PNG's kind of colour (PNG specification, 11.2.1).
_CHANNELS = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}
# Bytes that are unpacked at once.
_PIECE = 1 << 20


def is_in_order(stream: IO[bytes], *, is_jpeg: bool) -> bool:
    """Tell whether a JPEG's header is one segment after the other, or a PNG one header, data and an end.

    Pillow finds its way over other bytes between them, a second header and chunks without a sound name; DALI
    does not.
    """
    if is_jpeg:
        stream.seek(len(START_OF_JPEG))
        while len(head := stream.read(4)) == 4 and head[0] == 0xFF:
            if head[1] == _SCAN:
                return True
            stream.seek(int.from_bytes(head[2:], "big") - 2, os.SEEK_CUR)
        return False
    stream.seek(len(START_OF_PNG))
    heads = []
    while len(head := stream.read(8)) == 8:
        heads.append(head)
        if head[4:] == END_OF_PNG:
            break
        stream.seek(int.from_bytes(head[:4], "big") + 4, os.SEEK_CUR)
    kinds = [head[4:] for head in heads]
    return (
        kinds[:1] == [b"IHDR"]
        and kinds.count(b"IHDR") == 1
        and kinds[-1] == END_OF_PNG
        and int.from_bytes(heads[0][:4], "big") == 13
        # Letters, of which the third is a capital (PNG specification, 5.4).
        and all(kind.isalpha() and kind[2:3].isupper() for kind in kinds)
    )


def png_fault(content: bytes) -> str:
    """Say what is wrong with the data of a PNG whose chunks are in order; "" where nothing is.

    Pillow reads a picture whose checksums are wrong, and takes rows that are missing for black.
    """
    data, header = [], b""
    for kind, body, checksum in _chunks(content):
        critical = kind[:1].isupper()
        if critical and zlib.crc32(kind + body) != checksum:
            return (
                f"the checksum of its {kind.decode()} is wrong"
                if kind.isalpha()
                else "its chunks are damaged"
            )
        if kind == b"IHDR":
            header = body
        elif kind == b"IDAT":
            data.append(body)
    width, height = int.from_bytes(header[:4], "big"), int.from_bytes(header[4:8], "big")
    depth, colour, packing, filters, interlaced = header[8:13]
    if packing or filters:  # no others are defined, and only Pillow does not look
        return "its header names an unknown way of packing"
    row = 1 + (width * depth * _CHANNELS.get(colour, 1) + 7) // 8
    try:
        size, is_ended = _unpacked(b"".join(data), most=2 * height * row + _PIECE)
    except zlib.error:
        return "its data are damaged"
    if not is_ended:
        return "its data do not come to an end"
    # Interlaced rows are cut into seven pictures of other sizes; of those, Pillow itself misses what is not
    # there.
    if size < height * row and not interlaced:
        return "its data end before its last row"
    return ""


def _unpacked(packed: bytes, most: int) -> tuple[int, bool]:
    """The bytes that data unpack to, and whether they end within the first ``most``; nothing is kept."""
    unpacking = zlib.decompressobj()
    size = 0
    while not unpacking.eof and size <= most:
        piece = unpacking.decompress(packed, _PIECE)
        if not piece and not unpacking.unconsumed_tail:
            break
        packed = unpacking.unconsumed_tail
        size += len(piece)
    return size, unpacking.eof


def _chunks(content: bytes) -> Iterator[tuple[bytes, bytes, int]]:
    """(kind, body, checksum) of each chunk up to the end; what may stand behind it is no chunk."""
    place = len(START_OF_PNG)
    while place + 12 <= len(content):
        size = int.from_bytes(content[place : place + 4], "big")
        end = place + 8 + size
        kind = content[place + 4 : place + 8]
        yield kind, content[place + 8 : end], int.from_bytes(content[end : end + 4], "big")
        if kind == END_OF_PNG:
            return
        place = end + 4
