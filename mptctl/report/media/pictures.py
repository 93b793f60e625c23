"""Read pictures of flipped samples, and show them inside a page or in a terminal."""

from __future__ import annotations

import base64
import io
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

# Returns a sample's picture by its id, (H, W, 3) uint8; None where there is none.
PictureReader = Callable[[str], "NDArray[np.uint8] | None"]

# Pixels of a picture's longest side; 24 pictures of natural scenes then stay near one megabyte.
LARGEST = 160
# Larger pictures are not shown: reading one takes 6 bytes a pixel, 150 MB at this size.
MAX_PIXELS = 25_000_000
# One character of a terminal shows two pixels: this half in its colour, the lower half in its background.
UPPER_HALF = "▀"


def pictures_below(root: Path) -> PictureReader:
    """A reader of pictures whose sample ids are paths below a folder.

    The reader returns None for a path outside the folder, a file that is missing or no picture, and a picture
    of more than `MAX_PIXELS`.
    """
    base = root.resolve()

    def read(sample: str) -> NDArray[np.uint8] | None:
        try:
            path = (base / sample).resolve()
            if not path.is_relative_to(base) or not path.is_file():
                return None
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", Image.DecompressionBombWarning
                )  # MAX_PIXELS is the limit here
                with Image.open(path) as picture:
                    if picture.width * picture.height > MAX_PIXELS:
                        return None
                    return np.asarray(picture.convert("RGB"))
        except (OSError, ValueError, SyntaxError, RuntimeError, Image.DecompressionBombError):
            return None  # also where the id is no path: with a NUL, or longer than a name may be

    return read


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


def can_draw(console: Console) -> bool:
    """Whether a console is a terminal that has 256 colours and can print a half block."""
    has_colours = console.color_system in ("truecolor", "256")
    return console.is_terminal and has_colours and _can_encode_half_block(console.encoding)


def draw_half_blocks(picture: NDArray[np.uint8]) -> Text:
    """A picture, (H, W, 3) with H even, as H / 2 lines of W coloured characters."""
    lines = []
    for above, below in zip(picture[::2], picture[1::2], strict=True):
        line = Text()
        for upper, lower in zip(above.tolist(), below.tolist(), strict=True):
            line.append(UPPER_HALF, Style(color=Color.from_rgb(*upper), bgcolor=Color.from_rgb(*lower)))
        lines.append(line)
    return Text("\n").join(lines)


def _can_encode_half_block(encoding: str) -> bool:
    """Whether an encoding has the half block; False also for an unknown encoding."""
    try:
        UPPER_HALF.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
