"""Decodes one picture as RGB, and resizes, crops and normalises it; all loaders give the same pixels.

Pictures are (H, W, 3) everywhere; only torchvision's functions and the model get channels first. torchvision
takes about as long to import as torch, so it is imported inside the function that needs it.
"""

from __future__ import annotations

import io

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError
from torch import Tensor

from mptctl.data.manifest import STANDARD, Manifest
from mptctl.data.picture_structure import START_OF_JPEG
from mptctl.data.plan import Views
from mptctl.errors import DataError, first_line
from mptctl.machine.jpeg_decoder import jpeg_decoder
from mptctl.recipe import DataRecipe
from mptctl.recipe.data import Interpolation


def decode(data: bytes, kind: int, name: str) -> Tensor:
    """Decode a picture file to the pixels of Pillow's ``convert("RGB")``, without EXIF rotation.

    Args:
        data: bytes of the file.
        kind: kind in the manifest. A STANDARD JPEG file is decoded by torchcodec, if it is there, which frees
            Python's lock; any other file by Pillow.
        name: name of the picture, for the message.

    Returns:
        (H, W, 3) uint8.

    Raises:
        DataError: the file cannot be decoded.
    """
    try:
        is_standard_jpeg = kind == STANDARD and data.startswith(START_OF_JPEG)
        decode_jpeg = jpeg_decoder().decode if is_standard_jpeg else None
        if decode_jpeg is not None:
            return decode_jpeg(data).permute(1, 2, 0)
        return torch.from_numpy(decode_by_pillow(data))
    except (RuntimeError, OSError, ValueError, SyntaxError) as error:
        # Pillow's own message names an object in memory here.
        is_unidentified = isinstance(error, UnidentifiedImageError)
        why = "no readable header of a picture" if is_unidentified else first_line(error)[:120]
        raise DataError(
            f"{name}: cannot be decoded ({why}); run split --verify decode --overwrite"
        ) from error


def decode_by_pillow(data: bytes) -> NDArray[np.uint8]:
    """Decode the bytes of a picture file by Pillow: (H, W, 3) uint8. Raises what Pillow raises."""
    image = Image.open(io.BytesIO(data))
    image.info.pop("transparency", None)  # else Pillow warns that RGB drops it
    return np.array(image.convert("RGB"))


def resize_and_crop(
    picture: Tensor, resize: int, size: int, interpolation: Interpolation = "bilinear"
) -> Tensor:
    """Resize the shorter side and cut the centre, as torchvision's Resize and CenterCrop do.

    Args:
        picture: (H, W, 3) uint8.
        resize: shorter side, in pixels.
        size: side of the crop, S, at most ``resize``.
        interpolation: interpolation of the resizing, which is antialiased.

    Returns:
        (S, S, 3) uint8.
    """
    picture = resize_shorter_side(picture, resize, interpolation)
    # As torchvision: a place that ends in .5 goes to the even number.
    top, left = (round((side - size) / 2) for side in picture.shape[:2])
    return picture[top : top + size, left : left + size]


def resize_shorter_side(picture: Tensor, resize: int, interpolation: Interpolation = "bilinear") -> Tensor:
    """Resize a picture so that its shorter side has ``resize`` pixels; the longer side is rounded down.

    Args:
        picture: (H, W, 3) uint8.
        resize: shorter side, in pixels.
        interpolation: see `resize_picture`.

    Returns:
        (h, w, 3) uint8.
    """
    short = min(picture.shape[:2])
    height, width = (resize if side == short else resize * side // short for side in picture.shape[:2])
    return resize_picture(picture, height, width, interpolation)


def resize_picture(
    picture: Tensor, height: int, width: int, interpolation: Interpolation = "bilinear"
) -> Tensor:
    """Resize a picture, antialiased, to the pixels of torchvision's ``resize``.

    Calls torch directly: torchvision's functions take Python's lock so often that threads wait for each
    other.

    Args:
        picture: (H, W, 3) uint8, or a window of a picture.
        height: height after resizing, in pixels.
        width: width after resizing, in pixels.
        interpolation: ``bilinear`` or ``bicubic``.

    Returns:
        (height, width, 3) uint8; the picture itself if it has that size.
    """
    if tuple(picture.shape[:2]) == (height, width):
        return picture
    old_height, old_width, channels = picture.shape
    row = channels * old_width
    # A view as a batch of one, with channels first in the shape and last in memory, where torch is faster. A
    # stride of a whole picture for the batch is what torch knows this layout by.
    strides = (row * old_height, 1, row, channels)
    image = picture.contiguous().as_strided((1, channels, old_height, old_width), strides)
    resized = torch.nn.functional.interpolate(
        image, (height, width), mode=interpolation, align_corners=False, antialias=True
    )
    return resized[0].permute(1, 2, 0)


class Normalisation:
    """Turns (B, S, S, 3) uint8 pictures into float32, by a recipe's mean and standard deviation.

    Args:
        data: recipe with ``mean``, ``std``, and the picture size S.
        device: device of the pictures.
    """

    def __init__(self, data: DataRecipe, device: torch.device) -> None:
        mean, std = (torch.tensor(value, dtype=torch.float32) for value in (data.mean, data.std))
        # One entry for each value of a row of pixels: on a CPU, vectors of three are five times slower.
        self._offset = (-mean / std).repeat(data.image_size).to(device)
        self._scale = (1 / (255 * std)).repeat(data.image_size).to(device)

    def __call__(self, pictures: Tensor) -> Tensor:
        rows = pictures.reshape(-1, len(self._scale)).to(torch.float32)
        return rows.mul_(self._scale).add_(self._offset).view(pictures.shape)


def crop_and_flip(picture: Tensor, data: DataRecipe, views: Views, row: int) -> Tensor:
    """Crop and flip one picture as drawn.

    Args:
        picture: (H, W, 3) uint8, as stored.
        data: picture size S and kind of augmentation.
        views: windows and flips of several pictures.
        row: place of this picture in ``views``.

    Returns:
        (S, S, 3) uint8.
    """
    size = data.image_size
    top, left = int(views.top[row]), int(views.left[row])
    height, width = int(views.height[row]), int(views.width[row])
    if data.augment == "random-resized-crop":
        window = picture[top : top + height, left : left + width]
        picture = resize_picture(window, size, size, data.interpolation)
    else:
        from torchvision.transforms.v2 import functional as vision

        fitted = resize_and_crop(picture, size, size, data.interpolation).permute(2, 0, 1)
        picture = vision.crop(fitted, top, left, height, width).permute(1, 2, 0)  # zeros beyond the edge
    return picture.flip(1) if views.flip[row] else picture


def all_windows(pictures: Tensor, size: int) -> Tensor:
    """Return every window of some size in every picture, as a view without a copy.

    Args:
        pictures: (n, H, W, 3).
        size: side of a window, S.

    Returns:
        (n, H - S + 1, W - S + 1, S, S, 3): picture, top, left, row, column, channel.
    """
    return pictures.unfold(1, size, 1).unfold(2, size, 1).permute(0, 1, 2, 4, 5, 3)


def channels_first(pictures: Tensor) -> Tensor:
    """Return (B, S, S, 3) pictures as (B, 3, S, S), a view whose channels stay last in memory."""
    return pictures.permute(0, 3, 1, 2)


def decode_row(manifest: Manifest, index: int) -> Tensor:
    """Read and decode the picture of one row of a manifest: (H, W, 3) uint8.

    Raises:
        DataError: the picture is gone or cannot be decoded.
    """
    return decode(manifest.read(index), int(manifest.kinds[index]), manifest.where(index))


def use_one_thread() -> None:
    """Make torch compute on the calling thread alone, for threads of a pool that prepare small pictures.

    With two torch threads inside each thread of a pool, speed fell below a tenth.
    """
    torch.set_num_threads(1)
