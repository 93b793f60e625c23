"""Pictures that are damaged at random, or made to hurt: their bytes, the segments of a JPEG, the chunks of a PNG."""

from __future__ import annotations

import io
import random
import struct
import zlib
from collections.abc import Sequence
from functools import cache
from typing import Any

from PIL import Image

from tests.common import smooth_picture
from tests.fuzz.mutations import change_bytes

SIDE = 48
# JPEG, page numbers of ITU T.81: markers without a length (p. 32), and the frame headers (p. 35).
BARE = {0x01, 0xD8, 0xD9, *range(0xD0, 0xD8)}
FRAMES = {0xC0, 0xC1, 0xC2, 0xC3, 0xC9, 0xCA}
SCAN = 0xDA
SIGNATURE = b"\x89PNG\r\n\x1a\n"


@cache
def sound_pictures() -> tuple[bytes, ...]:
    """One of each way in which a decoder has to read a JPEG or a PNG; all are 48 x 48 but one."""
    colour = smooth_picture(SIDE, SIDE, 1)
    grey, palette = colour.convert("L"), colour.convert("P")
    transparent = colour.copy()
    transparent.putalpha(grey)
    exif = Image.Exif()
    exif[0x0112] = 6  # turned by 90 degrees
    kinds: list[tuple[Image.Image, dict[str, Any]]] = [
        (colour, {"format": "JPEG"}),
        (colour, {"format": "JPEG", "subsampling": 0, "quality": 95}),
        (colour, {"format": "JPEG", "subsampling": 1}),
        (colour, {"format": "JPEG", "progressive": True}),
        (colour, {"format": "JPEG", "restart_marker_blocks": 2}),
        (colour, {"format": "JPEG", "keep_rgb": True}),
        (colour, {"format": "JPEG", "exif": exif, "comment": b"a comment", "optimize": True}),
        (grey, {"format": "JPEG"}),
        (colour.convert("CMYK"), {"format": "JPEG"}),
        (smooth_picture(61, 37, 2), {"format": "JPEG"}),
        (colour, {"format": "MPO", "save_all": True, "append_images": [colour.transpose(0)]}),
        (colour, {"format": "PNG"}),
        (grey, {"format": "PNG"}),
        (transparent, {"format": "PNG"}),
        (palette, {"format": "PNG"}),
        (palette, {"format": "PNG", "transparency": bytes(range(256))}),
        (colour.convert("1"), {"format": "PNG"}),
        (colour, {"format": "PNG", "save_all": True, "append_images": [colour.transpose(0)]}),
    ]
    return tuple(_saved(image, **how) for image, how in kinds)


def damaged(rng: random.Random, sound: Sequence[bytes]) -> bytes:
    """One sound picture with one to four wounds.

    Args:
        rng: decides all.
        sound: files to choose from.
    """
    content = rng.choice(sound)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        ways = [change_bytes, _segments if content[:2] == b"\xff\xd8" else _chunks]
        content = rng.choice(ways)(content, rng)
    return content


def _saved(image: Image.Image, **how: Any) -> bytes:
    out = io.BytesIO()
    image.save(out, **how)
    return out.getvalue()


def _segments(content: bytes, rng: random.Random) -> bytes:
    """A JPEG with one segment damaged, moved, doubled or gone, or with other numbers in its frame's header."""
    parts = split_segments(content)
    here = rng.randrange(len(parts))
    frames = [i for i, part in enumerate(parts) if len(part) > 9 and part[1] in FRAMES]
    way = rng.randrange(9)
    if way == 0:
        del parts[here]
    elif way == 1:
        parts.insert(rng.randrange(len(parts)), parts[here])
    elif way == 2:
        there = rng.randrange(len(parts))
        parts[here], parts[there] = parts[there], parts[here]
    elif way == 3 and len(parts[here]) > 4:  # a length that is not its own
        length = rng.choice([0, 1, 2, 3, 65535, len(parts[here])])
        parts[here] = parts[here][:2] + struct.pack(">H", length % 65536) + parts[here][4:]
    elif way == 4:  # bytes of one segment alone, most of all of the coded data
        parts[-1 if rng.random() < 0.6 else here] = change_bytes(parts[-1], rng)
    elif way == 5:
        marker = bytes([0xFF, rng.randrange(256)])
        place = rng.randrange(len(parts[-1]) + 1)
        parts[-1] = parts[-1][:place] + marker + parts[-1][place:]
    elif way == 6:
        segment = bytes([0xFF, rng.choice([0xE0, 0xE1, 0xE2, 0xEE, 0xFE, 0xC4, 0xDB, 0xDD, 0xCC])])
        body = rng.choice([b"", b"Exif\x00\x00", b"Adobe\x00d\x00\x00\x00\x00\x01", rng.randbytes(40)])
        parts.insert(1, segment + struct.pack(">H", len(body) + 2) + body)
    elif frames:
        frame = bytearray(parts[frames[0]])
        if way == 7:  # height or width
            at, value = rng.choice([5, 7]), rng.choice([0, 1, 8, 47, 49, 64, 500, 20000, 65535])
            frame[at : at + 2] = struct.pack(">H", value)
        else:  # precision, number of components, their sampling and tables, the kind of coding
            at = rng.choice([1, 4, *range(9, len(frame))])
            frame[at] = rng.choice(
                [0, 1, 2, 3, 4, 8, 12, 0x11, 0x21, 0x12, 0x22, 0x41, 0x44, 0xC2, 0xC3, 0xFF]
            )
        parts[frames[0]] = bytes(frame)
    return b"".join(parts)


def split_segments(content: bytes) -> list[bytes]:
    """A JPEG's segments, markers and all; the last one holds the scan's header and all that follows."""
    parts, place = [], 0
    while place + 4 <= len(content) and content[place] == 0xFF:
        marker = content[place + 1]
        if marker == SCAN:
            break
        size = 2 if marker in BARE else 2 + int.from_bytes(content[place + 2 : place + 4], "big")
        parts.append(content[place : place + size])
        place += size
    return [*parts, content[place:]]


def _chunks(content: bytes, rng: random.Random) -> bytes:
    """A PNG with one chunk damaged, moved, doubled or gone; its checksum is right again."""
    parts = split_chunks(content)
    if not parts:
        return change_bytes(content, rng)
    here = rng.randrange(len(parts))
    kind, body = parts[here]
    way = rng.randrange(7)
    if way == 0:
        del parts[here]
    elif way == 1:
        parts.insert(rng.randrange(len(parts) + 1), parts[here])
    elif way == 2:
        there = rng.randrange(len(parts))
        parts[here], parts[there] = parts[there], parts[here]
    elif way == 3:
        parts[here] = (
            rng.choice([b"tRNS", b"PLTE", b"gAMA", b"acTL", b"fcTL", b"eXIf", b"IDAT", b"xxxx"]),
            body,
        )
    elif way == 4:  # a bomb: a text of a kilobyte that unpacks to a megabyte
        parts.insert(1, (b"zTXt", b"a\x00\x00" + zlib.compress(bytes(2**20))))
    elif way == 5 and len(parts[0][1]) == 13:  # size, depth, kind of colour, interlacing
        header = bytearray(parts[0][1])
        at = rng.randrange(13)
        if at < 8:
            value = rng.choice([0, 1, 47, 49, 500, 20000, 2**31 - 1])
            header[at // 4 * 4 : at // 4 * 4 + 4] = struct.pack(">I", value)
        else:
            header[at] = rng.choice([0, 1, 2, 3, 4, 6, 8, 16, 255])
        parts[0] = (parts[0][0], bytes(header))
    else:
        parts[here] = (kind, change_bytes(body, rng))
    return SIGNATURE + b"".join(map(_chunk, parts))


def split_chunks(content: bytes) -> list[tuple[bytes, bytes]]:
    """A PNG's chunks, (kind, body) each; empty where there are none to be found."""
    parts, place = [], len(SIGNATURE)
    while place + 12 <= len(content):
        size = int.from_bytes(content[place : place + 4], "big")
        parts.append((content[place + 4 : place + 8], content[place + 8 : place + 8 + size]))
        place += 12 + size
    return parts


def _chunk(part: tuple[bytes, bytes]) -> bytes:
    kind, body = part
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
