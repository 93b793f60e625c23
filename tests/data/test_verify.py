"""The header check: what it refuses, what it lets through, and what kind it says a picture is."""

from __future__ import annotations

import io
import struct
import zlib
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from mptctl.data.manifest import NONSTANDARD, STANDARD
from mptctl.data.verify import check_file, check_path, check_pictures
from mptctl.errors import DataError
from tests.common import smooth_picture

PICTURE = smooth_picture(50, 70, 0)


def saved(form: str, image: Image.Image = PICTURE, **options: object) -> bytes:
    stream = io.BytesIO()
    image.save(stream, form, **options)
    return stream.getvalue()


jpeg, png = partial(saved, "JPEG"), partial(saved, "PNG")


def with_thumbnail(data: bytes) -> bytes:
    """Put a whole JPEG into the header, as cameras do: its end marker is not the picture's."""
    thumbnail = jpeg(PICTURE.resize((16, 12)))
    segment = b"\xff\xe1" + struct.pack(">H", len(thumbnail) + 8) + b"Exif\0\0" + thumbnail
    return data[:2] + segment + data[2:]


def giant() -> bytes:
    """A header that says 20,000 x 20,000 pixels, and less than a kilobyte behind it."""
    data = jpeg(quality=5)
    place = data.index(b"\xff\xc0") + 5
    return data[:place] + struct.pack(">HH", 20_000, 20_000) + data[place + 4 :]


def chunks(*parts: tuple[bytes, bytes], checksum: int = 0) -> bytes:
    """A PNG of some chunks; ``checksum`` is added to that of the data."""
    written = [
        struct.pack(">I", len(body)) + kind + body
        + struct.pack(">I", (zlib.crc32(kind + body) + checksum * (kind == b"IDAT")) % 2**32)
        for kind, body in parts
    ]  # fmt: skip
    return b"\x89PNG\r\n\x1a\n" + b"".join(written)


def header(bits: int = 8, colour: int = 0, packing: int = 0, interlaced: int = 0) -> tuple[bytes, bytes]:
    return b"IHDR", struct.pack(">IIBBBBB", 70, 50, bits, colour, packing, 0, interlaced)


def rows(data: bytes) -> tuple[bytes, bytes]:
    return b"IDAT", zlib.compress(data)


# A grey PNG of 70 x 50, by its chunks; each row begins with a byte for its filter.
GREY_HEADER, END = header(), (b"IEND", b"")
ROWS = bytes(71) * 50
SOUND = rows(ROWS)


def without_end(data: bytes) -> bytes:
    """Packed data that could go on."""
    packing = zlib.compressobj()
    return packing.compress(data) + packing.flush(zlib.Z_SYNC_FLUSH)


def interlaced(pixels: np.ndarray) -> bytes:
    """Rows of the seven pictures that an interlaced PNG consists of (PNG specification, 8.1)."""
    steps = ((0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2))
    return b"".join(b"\0" + row.tobytes() for x, y, dx, dy in steps for row in pixels[y::dy, x::dx])


BAD = {
    "zero bytes": (b"", "empty"),
    "text": (b"this is not a picture\n" * 9, "no readable"),
    "half": (jpeg()[: len(jpeg()) // 2], "cut off"),
    "one byte short": (jpeg()[:-1], "cut off"),
    "half a header": (jpeg()[:80], "Truncated"),
    "two bytes": (b"\xff\xd8", "no readable"),
    "cut, with a thumbnail": (with_thumbnail(jpeg())[:-300], "cut off"),
    "progressive, cut": (jpeg(progressive=True)[:-200], "cut off"),
    "half a png": (png(PICTURE)[:400], "cut off"),
    "gif": (saved("GIF"), "is GIF, not JPEG or PNG"),
    "giant": (giant(), "pixels"),
    "png, taller than DALI reads": (png(Image.new("1", (1, 1_000_001))), "a side of a PNG file"),
    "16-bit grey": (png(Image.fromarray(np.zeros((4, 4), np.uint16))), "16 bits"),
    # Pillow opens this file as if it had 8 bits.
    "16-bit colour": (chunks(header(16, 2), rows(bytes(421) * 50), END), "16 bits"),
}
GOOD = {
    "plain": (jpeg(), STANDARD),
    "grey": (jpeg(PICTURE.convert("L")), STANDARD),
    "progressive": (jpeg(progressive=True), STANDARD),
    "full colour": (jpeg(subsampling=0), STANDARD),
    "bytes behind the end": (jpeg() + b"trailing bytes" * 40, STANDARD),
    "thumbnail": (with_thumbnail(jpeg()), STANDARD),
    "thumbnail and bytes behind": (with_thumbnail(jpeg()) + b"x" * 99, STANDARD),
    "cmyk": (jpeg(PICTURE.convert("CMYK")), NONSTANDARD),
    "rgb stored as such": (jpeg(keep_rgb=True), NONSTANDARD),
    "png": (png(PICTURE), STANDARD),
    "png, grey": (png(PICTURE.convert("L")), STANDARD),
    "png, transparent": (png(PICTURE.convert("RGBA")), NONSTANDARD),
    "png, palette": (png(PICTURE.convert("P")), NONSTANDARD),
    "png, one bit": (png(PICTURE.convert("1")), NONSTANDARD),
    "png, bytes behind the end": (png(PICTURE) + b"trailing bytes" * 40, STANDARD),
    "png, what looks like a chunk behind the end": (png(PICTURE) + b"\0\0\0\x02Z\0i\xee" + bytes(9), STANDARD),
    "png, interlaced": (
        chunks(
            header(interlaced=1), rows(interlaced(np.zeros((50, 70), np.uint8))),
            END,
        ),
        STANDARD,
    ),
    "png, data behind its last row": (chunks(GREY_HEADER, rows(ROWS + b"abc"), END), STANDARD),
    # Faults that Pillow finds its way over, and DALI does not.
    "bytes between segments": (jpeg()[:20] + b"ab" + jpeg()[20:], NONSTANDARD),
    "png, two headers": (chunks(GREY_HEADER, GREY_HEADER, SOUND, END), NONSTANDARD),
    "png, text first": (chunks((b"tEXt", b"a\0b"), GREY_HEADER, SOUND, END), NONSTANDARD),
    "png, a chunk without a sound name": (chunks(GREY_HEADER, (b"xxxx", b""), SOUND, END), NONSTANDARD),
    "png, data in two": (
        chunks(
            GREY_HEADER,
            (b"IDAT", zlib.compress(ROWS)[:9]),
            (b"IDAT", zlib.compress(ROWS)[9:]),
            (b"tIME", bytes(7)),
            END,
        ),
        STANDARD,
    ),
}  # fmt: skip
# Damaged data that Pillow reads without a word: another decoder reads nothing, or something else.
READ_IN_SEVERAL_WAYS = {
    "a row too few": (chunks(GREY_HEADER, rows(ROWS[:-71]), END), "before its last row"),
    "no end of the data": (chunks(GREY_HEADER, (b"IDAT", without_end(ROWS)), END), "do not come to an end"),
    "more data, no end": (chunks(GREY_HEADER, (b"IDAT", without_end(ROWS + b"abc")), END), "do not come to an end"),
    "far more data": (chunks(GREY_HEADER, rows(ROWS + bytes(10**7)), END), "do not come to an end"),
    "an unknown way of packing": (chunks(header(packing=1), SOUND, END), "unknown way of packing"),
    "another checksum": (chunks(GREY_HEADER, SOUND, END, checksum=1), "checksum of its IDAT"),
    # The marker's length reaches beyond the end of the file.
    "a marker in the coded data": (jpeg()[:-300] + b"\xff\xe0\xff\xff" + jpeg()[-300:], "not every decoder"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_files_are_refused_with_the_reason(tmp_path: Path, case: str) -> None:
    data, reason = BAD[case]
    path = tmp_path / "picture.jpg"
    path.write_bytes(data)
    with pytest.raises(DataError, match=reason):
        check_file(str(path))


@pytest.mark.parametrize("case", GOOD)
@pytest.mark.parametrize("verify", ["header", "decode"])
def test_good_files_pass_with_their_size_and_kind(tmp_path: Path, case: str, verify: str) -> None:
    data, kind = GOOD[case]
    path = tmp_path / "picture.jpg"
    path.write_bytes(data)
    found = check_file(str(path), verify)  # type: ignore[arg-type]
    assert (found.height, found.width, found.kind, found.size) == (50, 70, kind, len(data))


def test_decoding_finds_what_the_header_does_not_show(tmp_path: Path) -> None:
    data = bytearray(png(PICTURE))
    middle = len(data) // 2
    data[middle : middle + 40] = bytes(40)
    path = tmp_path / "picture.png"
    path.write_bytes(data)
    check_file(str(path))
    with pytest.raises(DataError):
        check_file(str(path), "decode")


@pytest.mark.parametrize("case", READ_IN_SEVERAL_WAYS)
def test_decoding_refuses_what_two_decoders_read_differently(tmp_path: Path, case: str) -> None:
    data, reason = READ_IN_SEVERAL_WAYS[case]
    assert Image.open(io.BytesIO(data)).convert("RGB").size == (70, 50)
    path = tmp_path / "picture.jpg"
    path.write_bytes(data)
    check_file(str(path))
    with pytest.raises(DataError, match=reason):
        check_file(str(path), "decode")


def test_many_files_are_checked_in_order_with_progress(tmp_path: Path) -> None:
    names = [f"{i}.jpg" for i in range(1100)]
    for i, name in enumerate(names):
        (tmp_path / name).write_bytes(b"bad" if i in (7, 600, 1099) else jpeg())
    seen: list[tuple[str, int, int]] = []
    found = check_pictures(
        len(names),
        lambda row: check_path(str(tmp_path / names[row]), "header"),
        threads=3,
        progress=lambda *at: seen.append(at),
    )
    assert list(found.problems) == [7, 600, 1099]
    assert seen == [("checking files", done, 1100) for done in (512, 1024, 1100)]
    assert (found.facts["height"] == 50).sum() == 1097
    assert found.facts["size"][8] == len(jpeg())
