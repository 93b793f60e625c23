"""Read one picture as RGB, and fit it to the model's input: what every loader must agree with.

Pictures are (H, W, 3) everywhere; torchvision's functions and the model want channels first, and get them
here. torchvision takes about as long to import as torch, so it is imported where a picture is decoded or cut.
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
    """Decode a file's bytes as Pillow's ``convert("RGB")`` would, without EXIF rotation.

    Args:
        data: the file.
        kind: STANDARD JPEG files are decoded by torchcodec, without Python's lock; all others by Pillow.
        name: for the message.

    Returns:
        (H, W, 3) uint8.

    Raises:
        DataError: it cannot be decoded.
    """
    try:
        is_standard_jpeg = kind == STANDARD and data.startswith(START_OF_JPEG)
        if is_standard_jpeg and (by_torchcodec := jpeg_decoder().decode) is not None:
            return by_torchcodec(data).permute(1, 2, 0)
        return torch.from_numpy(rgb(data))
    except (RuntimeError, OSError, ValueError, SyntaxError) as error:
        # Pillow names the object in memory that it could not identify.
        unknown = isinstance(error, UnidentifiedImageError)
        why = "no readable header of a picture" if unknown else first_line(error)[:120]
        raise DataError(
            f"{name}: cannot be decoded ({why}); run split --verify decode --overwrite"
        ) from error


def rgb(data: bytes) -> NDArray[np.uint8]:
    """(H, W, 3) uint8 of a file's bytes, read by Pillow."""
    image = Image.open(io.BytesIO(data))
    image.info.pop("transparency", None)  # transparency is dropped; Pillow would warn that it is
    return np.array(image.convert("RGB"))


def resize_and_crop(
    picture: Tensor, resize: int, size: int, interpolation: Interpolation = "bilinear"
) -> Tensor:
    """Resize the shorter side and cut the centre, as torchvision's Resize and CenterCrop do.

    Args:
        picture: (H, W, 3) uint8.
        resize: shorter side, in pixels.
        size: side of the crop, S, at most ``resize``.
        interpolation: of the resizing.

    Returns:
        (S, S, 3) uint8.
    """
    from torchvision.transforms.v2 import functional as vision

    image = picture.permute(2, 0, 1)
    if min(image.shape[-2:]) != resize:
        image = resized(picture, [resize], interpolation).permute(2, 0, 1)
    if tuple(image.shape[-2:]) != (size, size):
        image = vision.center_crop(image, [size, size])
    return image.permute(1, 2, 0)


def resized(picture: Tensor, size: list[int], interpolation: Interpolation = "bilinear") -> Tensor:
    """torchvision's resize, with the channels last in memory all the way.

    Torch resizes pixels of three bytes in one piece where a batch of one picture is given to it so; the same
    bytes come out as with the channels first.

    Args:
        picture: (H, W, 3) uint8, or a window of one.
        size: height and width, or the shorter side alone, in pixels.
        interpolation: of the resizing, which is antialiased.

    Returns:
        (h, w, 3) uint8.
    """
    from torchvision.transforms.v2 import InterpolationMode
    from torchvision.transforms.v2 import functional as vision

    image: Tensor = vision.resize(
        picture.contiguous().permute(2, 0, 1).unsqueeze(0),
        size,
        interpolation=InterpolationMode(interpolation),
        antialias=True,
    )
    return image.squeeze(0).permute(1, 2, 0)


class Normalisation:
    """(B, S, S, 3) uint8 on a device -> float32, by a recipe's mean and deviation.

    Args:
        data: with mean, deviation, and picture size S.
        device: where the pictures are.
    """

    def __init__(self, data: DataRecipe, device: torch.device) -> None:
        mean, std = (torch.tensor(v, dtype=torch.float32) for v in (data.mean, data.std))
        # For a row of pixels at once: on a CPU, vectors of three are five times slower.
        self._offset = (-mean / std).repeat(data.image_size).to(device)
        self._scale = (1 / (255 * std)).repeat(data.image_size).to(device)

    def __call__(self, pictures: Tensor) -> Tensor:
        rows = pictures.reshape(-1, len(self._scale)).to(torch.float32)
        return rows.mul_(self._scale).add_(self._offset).view(pictures.shape)


def augment(picture: Tensor, data: DataRecipe, views: Views, row: int) -> Tensor:
    """Cut one picture as the plan says.

    Args:
        picture: (H, W, 3) uint8, as stored.
        data: picture size and kind of augmentation.
        views: windows and flips, of which ``row`` is this picture's.
        row: which of them.

    Returns:
        (S, S, 3) uint8, S being the recipe's picture size.
    """
    from torchvision.transforms.v2 import functional as vision

    size = data.image_size
    top, left = int(views.top[row]), int(views.left[row])
    height, width = int(views.height[row]), int(views.width[row])
    if data.augment == "random-resized-crop":
        stored = picture[top : top + height, left : left + width]
        image: Tensor = resized(stored, [size, size], data.interpolation).permute(2, 0, 1)
    else:
        fitted = resize_and_crop(picture, size, size, data.interpolation).permute(2, 0, 1)
        image = vision.crop(fitted, top, left, height, width)  # zeros beyond the edge
    if views.flip[row]:
        image = image.flip(-1)
    return image.permute(1, 2, 0)


def windows(pictures: Tensor, size: int) -> Tensor:
    """Every window of some size in every picture, without a copy.

    Args:
        pictures: (n, H, W, 3).
        size: side of a window, S.

    Returns:
        (n, H - S + 1, W - S + 1, S, S, 3), the second and third dimension being top and left.
    """
    return pictures.unfold(1, size, 1).unfold(2, size, 1).permute(0, 1, 2, 4, 5, 3)


def channels_first(pictures: Tensor) -> Tensor:
    """(B, S, S, 3) -> (B, 3, S, S) as the model takes it; in memory the channels stay last."""
    return pictures.permute(0, 3, 1, 2)


def decode_row(manifest: Manifest, index: int) -> Tensor:
    """Decode one row of a manifest of encoded pictures: (H, W, 3) uint8.

    Raises:
        DataError: its bytes are gone or cannot be decoded.
    """
    return decode(manifest.read(index), int(manifest.kinds[index]), manifest.where(index))


def single_threaded() -> None:
    """Let torch compute on the calling thread alone: pictures are many, and small.

    Two threads inside each of several were seen to fall below a tenth of the speed of one.
    """
    torch.set_num_threads(1)
