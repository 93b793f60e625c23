"""Pictures of flipped samples: inside a page, and small ones in a terminal."""

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

# A sample's picture by its id, (H, W, 3) uint8; None where there is none.
PictureReader = Callable[[str], "NDArray[np.uint8] | None"]

# Longest side in pixels; 24 pictures of natural scenes then stay near one megabyte.
LARGEST = 160
# Pictures with more are not shown: each takes 3 bytes a pixel twice over while it is made small.
MAX_PIXELS = 25_000_000
# A character of a terminal is two pixels, one above the other.
UPPER_HALF = "▀"


def pictures_below(root: Path) -> PictureReader:
    """Read pictures whose ids are paths below `root`; what lies outside it or is no picture reads as None."""
    base = root.resolve()

    def read(sample: str) -> NDArray[np.uint8] | None:
        try:
            path = (base / sample).resolve()
            if not path.is_relative_to(base) or not path.is_file():
                return None
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # it is looked at below
                with Image.open(path) as picture:
                    if picture.width * picture.height > MAX_PIXELS:
                        return None
                    return np.asarray(picture.convert("RGB"))
        except (OSError, ValueError, SyntaxError, RuntimeError, Image.DecompressionBombError):
            return None  # also where the id is no path: with a NUL, or longer than a name may be

    return read


def data_url(picture: NDArray[np.uint8], largest: int = LARGEST, form: str = "PNG") -> str:
    """A picture (H, W, 3) as a PNG or JPEG in a data URL, no side longer than some pixels."""
    image = Image.fromarray(picture)
    image.thumbnail((largest, largest))
    file = io.BytesIO()
    image.save(file, form)
    return f"data:image/{form.lower()};base64," + base64.b64encode(file.getvalue()).decode()


def can_draw(console: Console) -> bool:
    """A terminal of enough colours that can print a half block."""
    return console.is_terminal and console.color_system in ("truecolor", "256") and _prints(console.encoding)


def draw_half_blocks(picture: NDArray[np.uint8]) -> Text:
    """A picture, (H, W, 3) uint8 with H even, as H / 2 lines of W characters."""
    lines = []
    for above, below in zip(picture[::2], picture[1::2], strict=True):
        line = Text()
        for upper, lower in zip(above.tolist(), below.tolist(), strict=True):
            line.append(UPPER_HALF, Style(color=Color.from_rgb(*upper), bgcolor=Color.from_rgb(*lower)))
        lines.append(line)
    return Text("\n").join(lines)


def _prints(encoding: str) -> bool:
    try:
        UPPER_HALF.encode(encoding)
    except (UnicodeEncodeError, LookupError):
        return False
    return True
