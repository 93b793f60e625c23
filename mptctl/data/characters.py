"""The source `characters`: letters and digits, distorted from glyphs that come with the package."""

from __future__ import annotations

import string
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from mptctl.data.embedded.read import read_glyphs
from mptctl.data.manifest import content_digest
from mptctl.data.plan import random_keys
from mptctl.errors import DataError, StorageError
from mptctl.files import replacing

# Capitals and the digits that look like none of them; then what looks like one of these: the other digits and
# the small letters. Half of the classes are old by default, so that what is confused with an old class is
# mostly new.
CLASS_NAMES = tuple(string.ascii_uppercase + "23479" + "01568" + string.ascii_lowercase)
# Pictures of each class. A fifth of the training part is held out by default: 66 a class for validation, so
# that a budget of flips can be set on it.
TRAIN_PER_CLASS, TEST_PER_CLASS = 330, 150
SIZE = 16  # side of a picture, in pixels

# Whose glyphs come with the package: every text font of matplotlib 3.11, whose others hold symbols or stand
# in for missing letters.
FONTS = (
    *(f"DejaVuSans{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSansMono{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSerif{style}" for style in ("", "-Bold", "-Italic", "-BoldItalic")),
    *(f"STIXGeneral{style}" for style in ("", "Bol", "Italic", "BolIta")),
    *("cmr10", "cmb10", "cmss10", "cmtt10", "cmti10"),
)

# A glyph as it is kept: pixels of an em, side of the square, and the row of the baseline in it.
EM, SQUARE, BASELINE = 40, 64, 46
# An em of a picture, in pixels: capitals are 8 to 9 high and descenders stay inside.
_PICTURE_EM = 12.0
# Row of a picture on which a character stands if it is not moved.
_PICTURE_BASELINE = 11.5

# Ranges in which each picture is changed. These decide how hard the pictures are; nothing else does.
_SCALE = (0.88, 1.1)  # of width and of height, each for itself
_SLANT = 0.2  # columns to a row, and rows to a column (half of it), either way
_SHIFT = 1.0  # pixels, either way, along both sides
_STROKE = (-0.25, 0.3)  # pixels that are put on each side of a stroke
_BLUR = (1.0, 2.0)  # pixels over which an edge goes from paper to ink
_CONTRAST = (0.35, 0.9)  # between paper and ink, of the whole range
_TINT = 0.12  # by which each channel of paper and ink differs from grey
_GRADIENT = 0.25  # change of the paper across the picture
_NOISE = (0.02, 0.09)  # standard deviation
_CREASE = 0.5  # pixels: half the width of a line across the picture, at most
_CHUNK = 1024  # pictures that are drawn at once, so that all of it stays in the processor's cache

# Random numbers of the drawing; the split's own, which share the seed, have lower ones.
_FIRST_FIELD = 1000
_NOISE_FIELD = 2000

Pictures = NDArray[np.uint8]
Floats = NDArray[np.float32]


def draw_characters(seed: int) -> tuple[Pictures, NDArray[np.int32], int]:
    """Draw the source. The same seed gives the same bytes.

    Both parts show all fonts; what differs is how each picture is distorted, which is never the same twice.

    Args:
        seed: of fonts and distortions.

    Returns:
        (M, 16, 16, 3) uint8 pictures, (M,) int32 labels into `CLASS_NAMES`, and the number of training rows,
        which come first.

    Raises:
        DataError: the file of glyphs is missing or damaged.
    """
    classes = len(CLASS_NAMES)
    rows = np.arange((TRAIN_PER_CLASS + TEST_PER_CLASS) * classes, dtype=np.int64)
    labels = (rows % classes).astype(np.int32)
    distances = _distances()
    pictures = np.empty((len(rows), SIZE, SIZE, 3), dtype=np.uint8)
    for start in range(0, len(rows), _CHUNK):
        part = slice(start, start + _CHUNK)
        pictures[part] = _draw(distances, rows[part], labels[part], seed)
    return pictures, labels, TRAIN_PER_CLASS * classes


def keep_characters(pictures: Pictures, cache_dir: Path) -> None:
    """Write drawn pictures, (M, 16, 16, 3) uint8, to one file that their digest names.

    Raises:
        StorageError: ``cache_dir`` cannot be written.
    """
    with replacing(_cache_file(content_digest(pictures), cache_dir)) as stream:
        np.save(stream, pictures)


def load_characters(content: str, seed: int, cache_dir: Path) -> Pictures:
    """Read what `keep_characters` wrote; where that is gone or damaged, draw it again.

    Args:
        content: digest of the pictures.
        seed: that they were drawn with.
        cache_dir: where they were kept.

    Returns:
        (M, 16, 16, 3) uint8.

    Raises:
        DataError: this version of mptctl draws other pictures.
        StorageError: ``cache_dir`` cannot be read or written.
    """
    path = _cache_file(content, cache_dir)
    try:
        kept: Pictures = np.load(path, allow_pickle=False)
        if content_digest(kept) == content:
            return kept
    except (FileNotFoundError, ValueError, EOFError):
        pass
    except OSError as error:
        raise StorageError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
    pictures, _, _ = draw_characters(seed)
    if content_digest(pictures) != content:
        raise DataError(
            f"characters: {path} is gone or damaged, and another version of mptctl drew what was split; "
            "run split --overwrite"
        )
    keep_characters(pictures, cache_dir)
    return pictures


def _cache_file(content: str, cache_dir: Path) -> Path:
    return cache_dir / f"characters-{content}.npy"


class _Draws:
    """Uniform random numbers, one a picture at each call.

    What is made of them takes sums, products, quotients and square roots alone, which every processor rounds
    alike.
    """

    def __init__(self, seed: int, rows: NDArray[np.int64]) -> None:
        self.seed, self.rows, self.field = seed, rows, _FIRST_FIELD

    def __call__(self, low: float, high: float) -> Floats:
        """(n, 1, 1) numbers in [low, high)."""
        self.field += 1
        keys = random_keys(self.seed, 0, self.rows, self.field)
        share = (keys >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
        drawn: Floats = np.float32(low) + np.float32(high - low) * share
        return drawn[:, None, None]


def _draw(distances: Floats, rows: NDArray[np.int64], labels: NDArray[np.int32], seed: int) -> Pictures:
    """(n, SIZE, SIZE, 3): one picture a row."""
    draw = _Draws(seed, rows)
    ink = _ink(draw, distances, labels)
    noise = _noise(seed, rows)
    contrast = draw(*_CONTRAST)
    paper = draw(0, 1) * (1 - contrast)
    dark = draw(0, 1) < 0.5
    paper, pen = np.where(dark, paper + contrast, paper), np.where(dark, paper, paper + contrast)
    y, x = _places()
    paper = paper + (draw(-1, 1) * (y - SIZE / 2) + draw(-1, 1) * (x - SIZE / 2)) * np.float32(
        _GRADIENT / SIZE
    )
    strength = draw(*_NOISE)
    channels = [
        (paper + draw(-_TINT, _TINT)) * (1 - ink)
        + (pen + draw(-_TINT, _TINT)) * ink
        + strength * noise[..., channel]
        for channel in range(3)
    ]
    colours = np.clip(np.stack(channels, axis=-1), 0, 1) * np.float32(255)
    pictures: Pictures = np.rint(colours).astype(np.uint8)
    return pictures


def _ink(draw: _Draws, distances: Floats, labels: NDArray[np.int32]) -> Floats:
    """(n, SIZE, SIZE) in 0..1: the part of each pixel that a character or the crease across it covers."""
    font = draw(0, len(FONTS))[:, 0, 0].astype(np.int64)
    y, x = _places()
    # From a pixel of the picture to a place in the glyph's square, around the baseline's middle.
    across = x - np.float32(SIZE / 2 - 0.5) + draw(-_SHIFT, _SHIFT)
    down = y - np.float32(_PICTURE_BASELINE) + draw(-_SHIFT, _SHIFT)
    # Slanted around the middle of a small letter: around the baseline, high letters would leave the picture.
    slant, tilt = draw(-_SLANT, _SLANT), draw(-_SLANT / 2, _SLANT / 2)
    across, down = across + slant * (down + np.float32(0.25 * _PICTURE_EM)), down + tilt * across
    unit = np.float32(EM / _PICTURE_EM)
    column = across * (unit / draw(*_SCALE)) + np.float32(SQUARE / 2)
    row = down * (unit / draw(*_SCALE)) + np.float32(BASELINE)
    inside = _sample(distances, font * len(CLASS_NAMES) + labels, row, column) / unit
    ink = _covered((inside + draw(*_STROKE)) / draw(*_BLUR))
    # The crease is a line from edge to edge: x = a + b y or y = a + b x.
    upright = draw(0, 1) < 0.5
    along, beside = np.where(upright, y, x), np.where(upright, x, y)
    off = np.abs(beside - draw(-SIZE / 2, 1.5 * SIZE) - draw(-1, 1) * (along - np.float32(SIZE / 2)))
    return np.maximum(ink, _covered(draw(0, _CREASE) - off))


def _places() -> tuple[Floats, Floats]:
    """Row and column of each pixel, (1, SIZE, SIZE) each."""
    y, x = np.mgrid[:SIZE, :SIZE].astype(np.float32)[:, None]
    return y, x


def _covered(distance: Floats) -> Floats:
    """The part of a pixel that is covered, from the distance of its middle to the edge."""
    covered: Floats = np.clip(distance + np.float32(0.5), np.float32(0), np.float32(1))
    return covered


def _noise(seed: int, rows: NDArray[np.int64]) -> Floats:
    """(n, SIZE, SIZE, 3) of mean 0 and deviation 1: sums of four bytes, which are nearly normal."""
    words = SIZE * SIZE * 3 // 2
    keys = random_keys(seed, 0, (rows[:, None] * words + np.arange(words)).reshape(-1), _NOISE_FIELD)
    total = keys.astype("<u8").view(np.uint8).reshape(-1, 4).sum(axis=1, dtype=np.int32)
    # Variance of a byte: (256**2 - 1) / 12.
    noise: Floats = (total - 510).astype(np.float32) / np.float32(147.8)
    return noise.reshape(-1, SIZE, SIZE, 3)


def _sample(
    squares: Floats,
    which: NDArray[np.int64],
    row: Floats,
    column: Floats,
) -> Floats:
    """Values between the pixels of squares, bilinear; beyond the edge, the edge's."""
    row, column = (np.clip(place, 0, np.float32(SQUARE - 1.001)) for place in (row, column))
    top, left = row.astype(np.int32), column.astype(np.int32)
    down, right = row - top, column - left
    place = which[:, None, None] * (SQUARE * SQUARE) + top * SQUARE + left
    flat = squares.reshape(-1)
    upper = flat[place] * (1 - right) + flat[place + 1] * right
    lower = flat[place + SQUARE] * (1 - right) + flat[place + SQUARE + 1] * right
    between: Floats = upper * (1 - down) + lower * down
    return between


@lru_cache(maxsize=1)
def _distances() -> Floats:
    """(fonts, classes, square, square): distance to the glyph's edge in pixels, inside positive."""
    from scipy.ndimage import distance_transform_edt

    glyphs = read_glyphs(len(FONTS), len(CLASS_NAMES), SQUARE)
    out = np.empty(glyphs.shape, dtype=np.float32)
    for font, label in np.ndindex(glyphs.shape[:2]):
        ink = glyphs[font, label]
        out[font, label] = np.where(
            ink, distance_transform_edt(ink) - 0.5, 0.5 - distance_transform_edt(~ink)
        )
    return out
