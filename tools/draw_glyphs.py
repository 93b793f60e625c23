"""Draw mptctl/data/embedded/glyphs.png, the glyphs of the source `characters`, from matplotlib's fonts."""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.ft2font import FT2Font, LoadFlags
from numpy.typing import NDArray
from PIL import Image

from mptctl.data.characters import BASELINE, CLASS_NAMES, EM, FONTS, SQUARE
from mptctl.data.embedded.read import GLYPHS


def draw() -> NDArray[np.bool_]:
    """Draw all glyphs of all fonts: (fonts, classes, SQUARE, SQUARE), True where there is ink."""
    return np.stack([_draw_font(font) for font in FONTS])


def _draw_font(font: str) -> NDArray[np.bool_]:
    """Draw the glyphs of a font, (classes, SQUARE, SQUARE), at one scale, on one baseline, centred sideways."""
    face = FT2Font(str(Path(matplotlib.get_data_path()) / "fonts" / "ttf" / f"{font}.ttf"))
    face.set_size(EM, 72)
    squares = np.zeros((len(CLASS_NAMES), SQUARE, SQUARE), dtype=np.bool_)
    for square, character in zip(squares, CLASS_NAMES, strict=True):
        face.set_text(character, 0.0, flags=LoadFlags.NO_HINTING)
        face.draw_glyphs_to_bitmap(antialiased=True)
        glyph = np.asarray(face.get_image())
        height, width = glyph.shape
        top = BASELINE + round(face.get_descent() / 64) - height
        left = (SQUARE - width) // 2
        square[top : top + height, left : left + width] = glyph >= 128
    return squares


if __name__ == "__main__":
    sheet = draw().swapaxes(1, 2).reshape(len(FONTS) * SQUARE, len(CLASS_NAMES) * SQUARE)
    Image.fromarray(~sheet).save(GLYPHS, optimize=True)
