"""Small pictures in a terminal: a character is two pixels, one above the other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from rich.color import Color
from rich.console import Console
from rich.style import Style
from rich.text import Text

UPPER_HALF = "▀"


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
