"""Read one picture as RGB, and fit it to a square: what every loader must agree with."""

from __future__ import annotations

import io

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image
from torch import Tensor
from torchvision.io import ImageReadMode
from torchvision.transforms.v2 import functional as vision

from mptctl.data.manifest import STANDARD, Manifest
from mptctl.data.plan import Views
from mptctl.errors import DataError
from mptctl.recipe import DataRecipe

# torchvision has announced that its decoder will go, and warns at each call of the Python function.
# The operator behind it is about twice as fast as Pillow in threads; where it is gone, Pillow serves.
_decode_image = getattr(torch.ops.image, "decode_image", None)
# For JPEG alone: its PNG decoder ends the process on data that are damaged after the header.
_START_OF_JPEG = b"\xff\xd8"


def decode(data: bytes, kind: int, name: str) -> Tensor:
    """Decode a file's bytes as Pillow's ``convert("RGB")`` would, without EXIF rotation.

    Args:
        data: the file.
        kind: PLAIN JPEG files are decoded by torchvision, without Python's lock; all others by Pillow.
        name: for the message.

    Returns:
        (3, H, W) uint8.

    Raises:
        DataError: it cannot be decoded.
    """
    try:
        if kind == STANDARD and _decode_image is not None and data.startswith(_START_OF_JPEG):
            encoded = torch.frombuffer(bytearray(data), dtype=torch.uint8)
            decoded: Tensor = _decode_image(encoded, ImageReadMode.RGB.value, False)
            return decoded
        return torch.from_numpy(rgb(data)).permute(2, 0, 1)
    except (RuntimeError, OSError, ValueError, SyntaxError) as error:
        raise DataError(
            f"{name}: cannot be decoded ({_first_line(error)}); run split --verify decode --overwrite"
        ) from error


def rgb(data: bytes) -> NDArray[np.uint8]:
    """(H, W, 3) uint8 of a file's bytes, read by Pillow."""
    image = Image.open(io.BytesIO(data))
    image.info.pop("transparency", None)  # transparency is dropped; Pillow would warn that it is
    return np.array(image.convert("RGB"))


def resize_and_crop(image: Tensor, resize: int, size: int) -> Tensor:
    """Resize the shorter side and cut the centre, as torchvision's Resize and CenterCrop do.

    Args:
        image: (3, H, W) uint8.
        resize: shorter side, in pixels.
        size: side of the square, at most ``resize``.

    Returns:
        (3, size, size) uint8.
    """
    if min(image.shape[-2:]) != resize:
        image = vision.resize(image, [resize], antialias=True)
    if tuple(image.shape[-2:]) != (size, size):
        image = vision.center_crop(image, [size, size])
    return image


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:120]


def augment(image: Tensor, data: DataRecipe, views: Views, row: int) -> Tensor:
    """Cut one picture as the plan says.

    Args:
        image: (3, H, W) uint8, as stored.
        data: picture size and kind of augmentation.
        views: windows and flips, of which ``row`` is this picture's.
        row: which of them.

    Returns:
        (3, S, S) uint8, S being the recipe's picture size.
    """
    size = data.image_size
    top, left = int(views.top[row]), int(views.left[row])
    height, width = int(views.height[row]), int(views.width[row])
    if data.augment == "random-resized-crop":
        image = vision.resize(image[:, top : top + height, left : left + width], [size, size], antialias=True)
    else:
        image = vision.crop(
            resize_and_crop(image, size, size), top, left, height, width
        )  # zeros beyond the edge
    return image.flip(-1) if views.flip[row] else image


def decode_file(manifest: Manifest, index: int) -> Tensor:
    """Decode one row of a manifest of files: (3, H, W) uint8.

    Raises:
        DataError: the file is gone or cannot be decoded.
    """
    path = manifest.file(index)
    try:
        with open(path, "rb") as stream:
            data = stream.read()
    except OSError as error:
        raise DataError(
            f"{path}: gone since split ({error.strerror}); restore it, or run split --overwrite"
        ) from error
    return decode(data, int(manifest.kinds[index]), path)


def single_threaded() -> None:
    """Let torch compute on the calling thread alone: pictures are many, and small.

    Two threads inside each of several were seen to fall below a tenth of the speed of one.
    """
    torch.set_num_threads(1)
