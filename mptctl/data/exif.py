"""Finds the rotation that a picture's EXIF data ask for, and turns decoded pictures by it."""

from __future__ import annotations

import struct
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from PIL import Image

from mptctl.data.manifest import UPRIGHT
from mptctl.data.picture_structure import has_exif_chunk

if TYPE_CHECKING:
    from torch import Tensor

# For each other orientation: whether rows and columns change places, and the axes that are then mirrored.
_TURNS = {
    2: (False, (1,)),
    3: (False, (0, 1)),
    4: (False, (0,)),
    5: (True, ()),
    6: (True, (1,)),
    7: (True, (0, 1)),
    8: (True, (0,)),
}
_TAG = 0x0112
_BEGIN = b"Exif\0\0"
# Keys of Pillow's information on a PNG file that may hold an orientation.
_PNG_KEYS = ("exif", "Raw profile type exif", "XML:com.adobe.xmp")


class Orientation(NamedTuple):
    """The rotation that a picture's metadata ask for.

    Attributes:
        value: EXIF orientation, 1 to 8, as Pillow's `exif_transpose` reads it; 1 is upright.
        is_plain: False where other decoders may read another orientation out of the same file.
    """

    value: int
    is_plain: bool


def find_orientation(image: Image.Image, stream: IO[bytes]) -> Orientation:
    """Find the orientation of a picture that Pillow has opened.

    Args:
        image: the picture; a PNG file whose EXIF data stand behind its pixels is decoded.
        stream: its file; the position changes.
    """
    is_png = image.format == "PNG"
    if is_png and not any(key in image.info for key in _PNG_KEYS) and not has_exif_chunk(stream):
        return Orientation(UPRIGHT, is_plain=True)
    tag = _read_tag(image)
    if is_png:
        blocks = [image.info["exif"]] if "exif" in image.info else []
    else:
        segments = getattr(image, "applist", ())
        blocks = [content for name, content in segments if name == "APP1" and content.startswith(_BEGIN)]
    if tag in _TURNS:
        is_plain = len(blocks) == 1 and any(entry in blocks[0] for entry in _plain_entries(tag))
        return Orientation(tag, is_plain)
    return Orientation(UPRIGHT, is_plain=isinstance(tag, int) and len(blocks) <= 1)


def orientation_of(image: Image.Image) -> int:
    """Return the EXIF orientation of a picture, 1 to 8, as Pillow's `exif_transpose` reads it."""
    tag = _read_tag(image)
    return tag if tag in _TURNS else UPRIGHT


def _read_tag(image: Image.Image) -> Any:
    """Return the orientation as Pillow reads it: `UPRIGHT` where there is none, None in damaged EXIF data."""
    try:
        return image.getexif().get(_TAG, UPRIGHT)
    except Exception:  # of many kinds
        return None


def _plain_entries(value: int) -> list[bytes]:
    """Return an orientation's usual entry in EXIF data, in both byte orders: tag, type "short", 1, value."""
    return [struct.pack(f"{order}HHIH", _TAG, 3, 1, value) for order in "<>"]


def turn(picture: Tensor, orientation: int) -> Tensor:
    """Turn a decoded picture upright.

    Args:
        picture: (H, W, 3), as stored.
        orientation: EXIF orientation, 1 to 8.

    Returns:
        (H, W, 3), or (W, H, 3) for orientations 5 to 8; the picture itself if it is upright.
    """
    if orientation not in _TURNS:
        return picture
    swaps, mirrored = _TURNS[orientation]
    upright = picture.transpose(0, 1) if swaps else picture
    return upright.flip(mirrored).contiguous()


def exif_with(orientation: int) -> Image.Exif:
    """Make EXIF data with nothing but an orientation."""
    exif = Image.Exif()
    exif[_TAG] = orientation
    return exif
