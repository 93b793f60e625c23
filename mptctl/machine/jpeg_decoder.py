"""The decoder of JPEG pictures on a CPU: torchcodec where it can be used here, and Pillow where not."""

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
# EXIF data of one entry: orientation (0x0112), one short, 1, which is as it is stored (Exif 2.32, 4.6.4).
_UPRIGHT = b"\xff\xe1\x00\x22Exif\0\0MM\0\x2a\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x01" + bytes(6)


class JpegDecoder(NamedTuple):
    """The decoder of standard JPEG pictures.

    Attributes:
        name: ``torchcodec``, or ``Pillow`` where torchcodec cannot be used.
        decode: a file's bytes -> (3, H, W) uint8; None: Pillow decodes.
        problem: why torchcodec cannot be used; empty where it can.
    """

    name: str
    decode: Callable[[bytes], Tensor] | None
    problem: str = ""


@cache
def jpeg_decoder() -> JpegDecoder:
    """Find the decoder; one process keeps to one."""
    if not has_package("torchcodec") or not has_package("torch"):
        return JpegDecoder("Pillow", None, "torchcodec is not installed")
    try:
        import torch
        from torchcodec.decoders import decode_jpeg  # type: ignore[attr-defined]

        decode_jpeg(torch.frombuffer(bytearray(_smallest()), dtype=torch.uint8))
    except (ImportError, OSError, RuntimeError) as error:
        found = f"torchcodec {version_of('torchcodec')} cannot be used ({one_line(error)[:80]})"
        return JpegDecoder("Pillow", None, found)

    def decode(data: bytes) -> Tensor:
        picture = decode_jpeg(torch.frombuffer(_unturned(data), dtype=torch.uint8))
        assert not isinstance(picture, list)  # a list comes of a list
        return picture

    return JpegDecoder("torchcodec", decode)


def _unturned(data: bytes) -> bytearray:
    """A JPEG that says first that it is not turned: torchcodec turns it as its first EXIF data say."""
    content = bytearray(data[:2] + _UPRIGHT)
    content += memoryview(data)[2:]
    return content


def _smallest() -> bytes:
    """A JPEG of one pixel, on which the decoder is tried."""
    from PIL import Image

    file = io.BytesIO()
    Image.new("RGB", (1, 1)).save(file, "JPEG")
    return file.getvalue()
