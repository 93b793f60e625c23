"""Look at every picture file's header and ends before anything decodes it, in parallel."""

from __future__ import annotations

import io
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mptctl.data.manifest import NONSTANDARD, STANDARD
from mptctl.errors import DataError
from mptctl.machine.facts import usable_cores
from mptctl.names import Verify as Verify

Progress = Callable[[int, int], None]

# Pillow's own limit against decompression bombs (0.25 GB of pixels): larger pictures are refused.
MAX_PIXELS = 89_478_485
# What a decoder may get to see. MPO is a JPEG with more JPEGs behind it, as many phones write them.
_JPEG_FORMATS = ("JPEG", "MPO")
_ACCEPTED = (*_JPEG_FORMATS, "PNG")
_END_OF_JPEG, _END_OF_PNG = b"\xff\xd9", b"IEND"
_CHUNK = 512


@dataclass(frozen=True)
class CheckedFile:
    """What the header of a good picture file says."""

    height: int
    width: int
    kind: int  # PLAIN or ODD
    size: int
    mtime: int


@dataclass(frozen=True)
class CheckedFiles:
    """Columns of a manifest, (n,) each, and what is wrong with the files that are not good.

    Attributes:
        problems: (row, what is wrong) of each bad file, in order; its other columns are zero.
    """

    heights: NDArray[np.int32]
    widths: NDArray[np.int32]
    kinds: NDArray[np.uint8]
    sizes: NDArray[np.int64]
    mtimes: NDArray[np.int64]
    problems: list[tuple[int, str]]


def check_file(path: str, verify: Verify = "header") -> CheckedFile:
    """Look at one file.

    Args:
        path: the file.
        verify: ``header`` reads the header and the last bytes; ``decode`` also decodes the picture.

    Raises:
        DataError: what is wrong with it, without its name: empty, not a JPEG or PNG, cut off, too large,
            16 bits a channel.
    """
    with _without_warnings():
        return _look_at(path, verify)


@contextmanager
def _without_warnings() -> Iterator[None]:
    """Pillow warns of pictures larger than its limit, and of odd metadata; we refuse or take them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _look_at(path: str, verify: Verify) -> CheckedFile:
    try:
        with open(path, "rb") as stream:
            stat = os.fstat(stream.fileno())
            if stat.st_size == 0:
                raise DataError("empty")
            image = Image.open(stream)
            if image.format not in _ACCEPTED:
                raise DataError(f"is {image.format}, not JPEG or PNG")
            width, height = image.size
            if width * height > MAX_PIXELS:
                raise DataError(f"{width} x {height} pixels, more than {MAX_PIXELS} in all")
            is_jpeg = image.format in _JPEG_FORMATS
            scan = stream.tell() if image.format == "JPEG" else 0
            kind = _kind(image)
            if not _is_whole(stream, _END_OF_JPEG if is_jpeg else _END_OF_PNG, scan, is_jpeg):
                raise DataError("cut off: the end marker is missing")
            if verify == "decode":
                stream.seek(0)
                Image.open(stream).load()
            return CheckedFile(height, width, kind, stat.st_size, stat.st_mtime_ns)
    except DataError:
        raise
    except Image.DecompressionBombError as error:
        raise DataError(f"more than {MAX_PIXELS} pixels") from error
    except Image.UnidentifiedImageError as error:
        raise DataError("no readable JPEG or PNG header") from error
    # Pillow's plug-ins raise many kinds of errors on damaged files, SyntaxError and struct.error among them.
    except Exception as error:
        raise DataError(" ".join(str(error).split())[:120] or type(error).__name__) from error


def check_files(
    root: str,
    paths: Sequence[str],
    *,
    verify: Verify = "header",
    workers: int = 0,
    progress: Progress | None = None,
) -> CheckedFiles:
    """Look at many files in parallel.

    Args:
        root: data folder.
        paths: files below it.
        verify: as in `check_file`.
        workers: how many at once; 0 takes the number of usable cores.
        progress: called with (files done, files in all).

    Returns:
        One row a file, and all problems: no exception for a bad file.
    """
    total = len(paths)
    columns = np.zeros((5, total), dtype=np.int64)
    problems: list[tuple[int, str]] = []
    starts = range(0, total, _CHUNK)
    chunks = [(root, paths[start : start + _CHUNK], verify) for start in starts]
    with _without_warnings(), ThreadPoolExecutor(workers or usable_cores()) as pool:
        for start, (rows, bad) in zip(starts, pool.map(_check_chunk, chunks), strict=True):
            columns[:, start : start + rows.shape[1]] = rows
            problems += [(start + row, problem) for row, problem in bad]
            if progress is not None:
                progress(min(start + _CHUNK, total), total)
    return CheckedFiles(
        heights=columns[0].astype(np.int32),
        widths=columns[1].astype(np.int32),
        kinds=columns[2].astype(np.uint8),
        sizes=columns[3],
        mtimes=columns[4],
        problems=problems,
    )


def _check_chunk(chunk: tuple[str, Sequence[str], Verify]) -> tuple[NDArray[np.int64], list[tuple[int, str]]]:
    root, paths, verify = chunk
    rows = np.zeros((5, len(paths)), dtype=np.int64)
    problems: list[tuple[int, str]] = []
    for row, path in enumerate(paths):
        try:
            found = _look_at(os.path.join(root, path), verify)
            rows[:, row] = (found.height, found.width, found.kind, found.size, found.mtime)
        except DataError as error:
            problems.append((row, str(error)))
    return rows, problems


def _kind(image: Image.Image) -> int:
    """Whether every decoder reads this picture as Pillow's ``convert("RGB")`` does."""
    if image.format == "PNG":
        raw_mode = str(image.tile[0][3])
        if "16" in raw_mode:
            raise DataError("16 bits a channel; save it with 8")
        plain = image.mode in ("RGB", "L") and raw_mode == image.mode
        animated = bool(getattr(image, "is_animated", False))
        return STANDARD if plain and not animated and "transparency" not in image.info else NONSTANDARD
    # Red, green and blue stored as such, said by Adobe's marker or by the names of the components.
    names = tuple(part[0] for part in getattr(image, "layer", ()))
    stored_rgb = image.info.get("adobe_transform") == 0 or (
        "jfif" not in image.info and names == (82, 71, 66)
    )
    return STANDARD if image.mode == "L" or (image.mode == "RGB" and not stored_rgb) else NONSTANDARD


def _is_whole(stream: io.BufferedReader, end: bytes, start: int, at_the_end: bool) -> bool:
    """Whether the end marker stands behind the header. Good files may have bytes after it.

    Within the coded data of a JPEG, the end marker's two bytes cannot occur, but within its header they
    can (a thumbnail has one of its own), so the search begins behind the header.
    """
    if at_the_end:
        stream.seek(-len(end), os.SEEK_END)
        if stream.read() == end:
            return True
    else:
        stream.seek(max(-64, -stream.seek(0, os.SEEK_END)), os.SEEK_END)
        if end in stream.read():
            return True
    stream.seek(start)
    return end in stream.read()
