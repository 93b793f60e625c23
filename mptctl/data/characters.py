"""Draws the source `characters`: letters and digits, distorted from glyphs that come with the package."""

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

# First the capitals and the digits that look like no capital, 31 classes, then the other digits and the small
# letters. Half of the classes are old by default, so that the classes confused with old ones are mostly new.
CLASS_NAMES = tuple(string.ascii_uppercase + "23479" + "01568" + string.ascii_lowercase)
# Pictures of each class. By default a fifth of the training pictures is for validation, 66 of each class:
# enough to set a budget of flips on.
TRAIN_PER_CLASS, TEST_PER_CLASS = 330, 150
SIZE = 16  # side of a picture, in pixels

# The fonts of the glyphs: every text font of matplotlib 3.11. Its other fonts have symbols, or stand in for
# missing letters.
FONTS = (
    *(f"DejaVuSans{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSansMono{style}" for style in ("", "-Bold", "-Oblique", "-BoldOblique")),
    *(f"DejaVuSerif{style}" for style in ("", "-Bold", "-Italic", "-BoldItalic")),
    *(f"STIXGeneral{style}" for style in ("", "Bol", "Italic", "BolIta")),
    *("cmr10", "cmb10", "cmss10", "cmtt10", "cmti10"),
)

# Pixels in the file of glyphs: of an em, of the side of a glyph's square, and row of the baseline in it.
EM, SQUARE, BASELINE = 40, 64, 46
# Pixels of an em in a picture: capitals are 8 to 9 high, and descenders stay inside.
_PICTURE_EM = 12.0
# Row of the baseline in a picture, before the character is moved.
_PICTURE_BASELINE = 11.5

# Ranges of the random distortions. They alone decide how hard the pictures are.
_SCALE = (0.88, 1.1)  # of width and height, drawn independently
_SLANT = 0.2  # columns for each row at most, and half as many rows for each column
_SHIFT = 1.0  # pixels in each direction at most, along both sides
_STROKE = (-0.25, 0.3)  # pixels that are added to each side of a stroke
_BLUR = (1.0, 2.0)  # pixels over which an edge goes from paper to ink
_CONTRAST = (0.35, 0.9)  # difference of paper and ink, of the whole range
_TINT = 0.12  # difference of each channel of paper and ink from grey at most
_GRADIENT = 0.25  # change of the paper's grey across the picture at most
_NOISE = (0.02, 0.09)  # standard deviation, of the whole range
_CREASE = 0.5  # pixels: half the width of a line across the picture at most
_CHUNK = 1024  # pictures that are drawn at once, few enough for the processor's cache

# Fields of the random numbers (see `random_keys`); the split uses lower ones with the same seed.
_FIRST_FIELD = 1000
_NOISE_FIELD = 2000

Pictures = NDArray[np.uint8]
Floats = NDArray[np.float32]


def draw_characters(seed: int) -> tuple[Pictures, NDArray[np.int32], int]:
    """Draw all pictures of the source, each with a font and distortions of its own.

    The same seed gives the same bytes on every processor.

    Args:
        seed: seed of fonts and distortions.

    Returns:
        (M, 16, 16, 3) uint8 pictures, (M,) int32 index into `CLASS_NAMES`, and the number of training rows,
        which come first.

    Raises:
        DataError: the file of glyphs is missing or damaged.
    """
    classes = len(CLASS_NAMES)
    rows = np.arange((TRAIN_PER_CLASS + TEST_PER_CLASS) * classes, dtype=np.int64)
    labels = (rows % classes).astype(np.int32)
    distances = _compute_glyph_distances()
    pictures = np.empty((len(rows), SIZE, SIZE, 3), dtype=np.uint8)
    for start in range(0, len(rows), _CHUNK):
        chunk = slice(start, start + _CHUNK)
        pictures[chunk] = _draw_rows(distances, rows[chunk], labels[chunk], seed)
    return pictures, labels, TRAIN_PER_CLASS * classes


def keep_characters(pictures: Pictures, cache_dir: Path) -> None:
    """Write drawn pictures, (M, 16, 16, 3) uint8, to a file in ``cache_dir`` whose name has their digest.

    Raises:
        StorageError: ``cache_dir`` cannot be written.
    """
    with replacing(_cache_path(content_digest(pictures), cache_dir)) as stream:
        np.save(stream, pictures)


def load_characters(content: str, seed: int, cache_dir: Path) -> Pictures:
    """Read the pictures that `keep_characters` wrote; draw and write them again if that fails.

    Args:
        content: digest of the pictures.
        seed: seed with which they were drawn.
        cache_dir: folder of the file.

    Returns:
        (M, 16, 16, 3) uint8.

    Raises:
        DataError: the file is gone or damaged, and this version of mptctl draws other pictures.
        StorageError: ``cache_dir`` cannot be read or written.
    """
    path = _cache_path(content, cache_dir)
    try:
        cached: Pictures = np.load(path, allow_pickle=False)
        if content_digest(cached) == content:
            return cached
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


def _cache_path(content: str, cache_dir: Path) -> Path:
    """Return the path of the file of pictures with a digest."""
    return cache_dir / f"characters-{content}.npy"


class _UniformDraws:
    """Draws uniform random numbers, one for each picture in each call, by the next field.

    The drawing uses only sums, products, quotients and square roots of them, which every processor rounds
    alike.

    Args:
        seed: seed of the drawing.
        rows: (n,) rows of the pictures in the source.
    """

    def __init__(self, seed: int, rows: NDArray[np.int64]) -> None:
        self.seed, self.rows, self.field = seed, rows, _FIRST_FIELD

    def __call__(self, low: float, high: float) -> Floats:
        """Draw (n, 1, 1) numbers in [low, high)."""
        self.field += 1
        keys = random_keys(self.seed, 0, self.rows, self.field)
        share = (keys >> np.uint64(40)).astype(np.float32) * np.float32(2.0**-24)
        drawn: Floats = np.float32(low) + np.float32(high - low) * share
        return drawn[:, None, None]


def _draw_rows(distances: Floats, rows: NDArray[np.int64], labels: NDArray[np.int32], seed: int) -> Pictures:
    """Draw (n, SIZE, SIZE, 3) pictures.

    Args:
        distances: see `_compute_glyph_distances`.
        rows: (n,) rows of the pictures in the source.
        labels: (n,) classes of these rows.
        seed: seed of the drawing.
    """
    draw = _UniformDraws(seed, rows)
    ink = _draw_ink(draw, distances, labels)
    noise = _draw_noise(seed, rows)
    contrast = draw(*_CONTRAST)
    darker = draw(0, 1) * (1 - contrast)
    is_dark_on_light = draw(0, 1) < 0.5
    paper = np.where(is_dark_on_light, darker + contrast, darker)
    pen = np.where(is_dark_on_light, darker, darker + contrast)
    y, x = _pixel_places()
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


def _draw_ink(draw: _UniformDraws, distances: Floats, labels: NDArray[np.int32]) -> Floats:
    """Draw the (n, SIZE, SIZE) share, 0 to 1, of each pixel that the character or a crease covers."""
    font = draw(0, len(FONTS))[:, 0, 0].astype(np.int64)
    y, x = _pixel_places()
    # Place of each pixel in the glyph's square: from the middle of the baseline, in pixels of the picture.
    across = x - np.float32(SIZE / 2 - 0.5) + draw(-_SHIFT, _SHIFT)
    down = y - np.float32(_PICTURE_BASELINE) + draw(-_SHIFT, _SHIFT)
    # The slant turns around the middle of a small letter; around the baseline, high letters would leave the
    # picture.
    slanted = across + draw(-_SLANT, _SLANT) * (down + np.float32(0.25 * _PICTURE_EM))
    tilted = down + draw(-_SLANT / 2, _SLANT / 2) * across
    unit = np.float32(EM / _PICTURE_EM)
    column = slanted * (unit / draw(*_SCALE)) + np.float32(SQUARE / 2)
    row = tilted * (unit / draw(*_SCALE)) + np.float32(BASELINE)
    distance = _interpolate(distances, font * len(CLASS_NAMES) + labels, row, column) / unit
    ink = _cover((distance + draw(*_STROKE)) / draw(*_BLUR))
    # The crease is a line from edge to edge: x = a + b y or y = a + b x.
    upright = draw(0, 1) < 0.5
    along = np.where(upright, y, x)
    beside = np.where(upright, x, y)
    off_crease = np.abs(beside - draw(-SIZE / 2, 1.5 * SIZE) - draw(-1, 1) * (along - np.float32(SIZE / 2)))
    return np.maximum(ink, _cover(draw(0, _CREASE) - off_crease))


def _pixel_places() -> tuple[Floats, Floats]:
    """Return row and column of each pixel of a picture, (1, SIZE, SIZE) each."""
    y, x = np.mgrid[:SIZE, :SIZE].astype(np.float32)[:, None]
    return y, x


def _cover(distance: Floats) -> Floats:
    """Return the covered share of pixels whose middles are ``distance`` pixels inside an edge."""
    covered: Floats = np.clip(distance + np.float32(0.5), np.float32(0), np.float32(1))
    return covered


def _draw_noise(seed: int, rows: NDArray[np.int64]) -> Floats:
    """Draw (n, SIZE, SIZE, 3) nearly normal numbers of mean 0 and deviation 1: sums of four random bytes."""
    words = SIZE * SIZE * 3 // 2
    keys = random_keys(seed, 0, (rows[:, None] * words + np.arange(words)).reshape(-1), _NOISE_FIELD)
    total = keys.astype("<u8").view(np.uint8).reshape(-1, 4).sum(axis=1, dtype=np.int32)
    # Four bytes have the mean 510 and the variance 4 (256**2 - 1) / 12, which is 147.8**2.
    noise: Floats = (total - 510).astype(np.float32) / np.float32(147.8)
    return noise.reshape(-1, SIZE, SIZE, 3)


def _interpolate(squares: Floats, square: NDArray[np.int64], row: Floats, column: Floats) -> Floats:
    """Interpolate bilinearly between the pixels of squares; beyond an edge, values are those of the edge.

    Args:
        squares: (..., SQUARE, SQUARE) values.
        square: (n,) index of each picture's square.
        row, column: (n, SIZE, SIZE) places in that square, in its pixels.
    """
    last = np.float32(SQUARE - 1.001)
    row = np.clip(row, 0, last)
    column = np.clip(column, 0, last)
    top = row.astype(np.int32)
    left = column.astype(np.int32)
    down = row - top
    right = column - left
    pixels = squares.reshape(-1)
    index = square[:, None, None] * (SQUARE * SQUARE) + top * SQUARE + left
    upper = pixels[index] * (1 - right) + pixels[index + 1] * right
    lower = pixels[index + SQUARE] * (1 - right) + pixels[index + SQUARE + 1] * right
    between: Floats = upper * (1 - down) + lower * down
    return between


@lru_cache(maxsize=1)
def _compute_glyph_distances() -> Floats:
    """Compute the distance of each pixel to the glyph's edge: (fonts, classes, SQUARE, SQUARE).

    Distances are in pixels of the square, positive inside the glyph.
    """
    from scipy.ndimage import distance_transform_edt

    glyphs = read_glyphs(len(FONTS), len(CLASS_NAMES), SQUARE)
    distances = np.empty(glyphs.shape, dtype=np.float32)
    for font, label in np.ndindex(glyphs.shape[:2]):
        ink = glyphs[font, label]
        distances[font, label] = np.where(
            ink, distance_transform_edt(ink) - 0.5, 0.5 - distance_transform_edt(~ink)
        )
    return distances
