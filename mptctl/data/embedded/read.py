"""Reads the data that come with the package: the glyphs of `characters`, and the table of digits."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mptctl.errors import DataError

# Drawn by `python -m tools.draw_glyphs`: a row of squares for each font, a column for each class, black ink.
GLYPHS = Path(__file__).parent / "glyphs.png"
# A line for each picture: 64 grey levels, 0 to 16, and the digit.
DIGITS = Path(__file__).parent / "digits.csv.gz"


def read_glyphs(fonts: int, classes: int, side: int) -> NDArray[np.bool_]:
    """Read the glyphs: (fonts, classes, side, side), True where there is ink.

    Args:
        fonts, classes: how many the file has.
        side: side of a glyph's square, in pixels.

    Raises:
        DataError: the file is missing, damaged, or of another size.
    """
    try:
        with Image.open(GLYPHS) as picture:
            ink = ~np.asarray(picture.convert("1"))
        return ink.reshape(fonts, side, classes, side).swapaxes(1, 2)
    except (OSError, ValueError, SyntaxError) as error:  # Pillow says of some damage that it is of syntax
        raise _damage_error(GLYPHS) from error


def read_digits() -> tuple[NDArray[np.uint8], NDArray[np.int32]]:
    """Read the digits: (1797, 8, 8) grey levels from 0 to 16, and (1797,) labels from 0 to 9.

    Raises:
        DataError: the file is missing or damaged.
    """
    try:
        table = np.loadtxt(DIGITS, dtype=np.uint8, delimiter=",")
        return table[:, :-1].reshape(-1, 8, 8), table[:, -1].astype(np.int32)
    except (OSError, EOFError, ValueError, IndexError, zlib.error) as error:
        raise _damage_error(DIGITS) from error


def _damage_error(path: Path) -> DataError:
    """Return the error for a file of the package that is missing or damaged."""
    return DataError(f"{path}: missing or damaged; install mptctl again")
