"""Read pictures of flipped samples, and show them inside a page."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

# Returns a sample's picture by its id, (H, W, 3) uint8; None where there is none.
PictureReader = Callable[[str], "NDArray[np.uint8] | None"]

# Pixels of a picture's longest side; 24 pictures of natural scenes then stay near one megabyte.
LARGEST = 160
# Larger pictures are not shown: reading one takes 6 bytes a pixel, 150 MB at this size.
MAX_PIXELS = 25_000_000


def pictures_below(root: Path) -> PictureReader:
    """A reader of pictures whose sample ids are paths below a folder.

    The reader returns None for a path outside the folder, a file that is missing or no picture, and a picture
    of more than `MAX_PIXELS`.
    """
    base = root.resolve()

    def read(sample: str) -> NDArray[np.uint8] | None:
        try:
            path = (base / sample).resolve()
            return _read_picture(path) if path.is_relative_to(base) and path.is_file() else None
        except (OSError, ValueError, SyntaxError, RuntimeError, Image.DecompressionBombError):
            return None  # also where the id is no path: with a NUL, or longer than a name may be

    return read


def _read_picture(path: Path) -> NDArray[np.uint8] | None:
    """The picture in a file, (H, W, 3); None where it has more than `MAX_PIXELS`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)
        with Image.open(path) as picture:
            is_too_large = picture.width * picture.height > MAX_PIXELS
            return None if is_too_large else np.asarray(picture.convert("RGB"))


def data_url(picture: NDArray[np.uint8], largest: int = LARGEST, form: str = "PNG") -> str:
    """A picture as a data URL, made smaller so that no side is longer than some pixels.

    Args:
        picture: (H, W, 3).
        largest: pixels of its longest side at most.
        form: ``PNG`` or ``JPEG``.
    """
    image = Image.fromarray(picture)
    image.thumbnail((largest, largest))
    file = io.BytesIO()
    image.save(file, form)
    return f"data:image/{form.lower()};base64," + base64.b64encode(file.getvalue()).decode()
