"""Chooses the decoder of JPEG pictures on the CPU: torchcodec if it works here, else Pillow."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from mptctl.errors import one_line
from mptctl.machine.facts import has_package, version_of

if TYPE_CHECKING:
    from torch import Tensor

INSTALL = "pip install 'torchcodec>=0.16', of the release that fits torch"
# EXIF segment with one entry: orientation (0x0112), one short, 1, which means "as stored" (Exif 2.32, 4.6.4).
_UPRIGHT = b"\xff\xe1\x00\x22Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x01" + bytes(6)


class JpegDecoder(NamedTuple):
    """The decoder of standard JPEG pictures.

    Attributes:
        name: ``torchcodec`` or ``Pillow``.
        decode: torchcodec's function from a file's bytes to (3, H, W) uint8; None for Pillow.
        problem: why torchcodec cannot be used; empty if it can.
    """

    name: str
    decode: Callable[[bytes], Tensor] | None
    problem: str = ""


@cache
def jpeg_decoder() -> JpegDecoder:
    """Choose the decoder by trying torchcodec on a small picture; later calls return the same decoder."""
    if not has_package("torchcodec") or not has_package("torch"):
        return JpegDecoder("Pillow", None, "torchcodec is not installed")
    try:
        import torch
        from torchcodec.decoders import decode_jpeg  # type: ignore[attr-defined]

        decode_jpeg(torch.frombuffer(bytearray(_smallest_jpeg()), dtype=torch.uint8))
    except (ImportError, OSError, RuntimeError) as error:
        problem = f"torchcodec {version_of('torchcodec')} cannot be used ({one_line(error)[:80]})"
        return JpegDecoder("Pillow", None, problem)

    def decode(data: bytes) -> Tensor:
        picture = decode_jpeg(torch.frombuffer(_with_upright_orientation(data), dtype=torch.uint8))
        assert not isinstance(picture, list)  # torchcodec returns a list only for a list
        return picture

    return JpegDecoder("torchcodec", decode)


def _with_upright_orientation(data: bytes) -> bytearray:
    """Insert EXIF data with the orientation "as stored" at the start of a JPEG.

    torchcodec rotates a picture by its first EXIF data; pictures are used here without rotation.
    """
    content = bytearray(data[:2] + _UPRIGHT)
    content += memoryview(data)[2:]
    return content


def _smallest_jpeg() -> bytes:
    """A JPEG of one pixel, as a file's bytes."""
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (1, 1)).save(file, "JPEG")
    return file.getvalue()
