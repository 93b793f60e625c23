"""Pictures with an EXIF rotation, as a phone stores them, and their pixels as stored and turned."""

from __future__ import annotations

import io

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageOps

from tests.common import smooth_picture

ORIENTATION = 0x0112
WIDTH, HEIGHT = 48, 32
TURNED = (2, 3, 4, 5, 6, 7, 8)


def exif_of(orientation: int) -> Image.Exif:
    exif = Image.Exif()
    exif[ORIENTATION] = orientation
    return exif


def phone_picture(
    orientation: int, *, grey: bool = False, seed: int = 1, form: str = "JPEG", progressive: bool = False
) -> bytes:
    """A picture of 48 x 32, with the tag; orientation 0: without EXIF data."""
    picture = smooth_picture(HEIGHT, WIDTH, seed)
    stream = io.BytesIO()
    tag = {"exif": exif_of(orientation)} if orientation else {}
    how = {"quality": 95, "progressive": progressive} if form == "JPEG" else {}
    (picture.convert("L") if grey else picture).save(stream, form, **how, **tag)
    return stream.getvalue()


def phone_pictures() -> dict[str, bytes]:
    """Every orientation, in colours and grey, and a PNG, a WebP and a CMYK picture on their side."""
    pictures = {f"colour{tag}.jpg": phone_picture(tag, seed=tag) for tag in range(9)}
    pictures |= {f"grey{tag}.jpg": phone_picture(tag, grey=True, seed=20 + tag) for tag in (1, *TURNED)}
    stream = io.BytesIO()
    smooth_picture(HEIGHT, WIDTH, 40).convert("CMYK").save(stream, "JPEG", exif=exif_of(6))
    return pictures | {
        "drawn.png": phone_picture(6, form="PNG", seed=41),
        "web.webp": phone_picture(8, form="WEBP", seed=42),
        "ink.jpg": stream.getvalue(),
    }


def stored(content: bytes) -> NDArray[np.uint8]:
    """The pixels as torchvision's ImageFolder reads them."""
    return np.asarray(Image.open(io.BytesIO(content)).convert("RGB"))


def upright(content: bytes) -> NDArray[np.uint8]:
    """The pixels as a program reads them that turns pictures."""
    return np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(content))).convert("RGB"))


def centre(picture: NDArray[np.uint8], side: int = HEIGHT) -> NDArray[np.uint8]:
    top, left = ((length - side) // 2 for length in picture.shape[:2])
    return picture[top : top + side, left : left + side]
