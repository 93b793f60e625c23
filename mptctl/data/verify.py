"""Look at every picture file's header and ends before anything decodes it, in parallel."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mptctl.data.manifest import NONSTANDARD, STANDARD
from mptctl.data.picture_kinds import FORMATS
from mptctl.data.picture_structure import END_OF_JPEG, END_OF_PNG, START_OF_PNG, is_in_order, png_fault
from mptctl.errors import DataError, UsageError, one_line
from mptctl.machine.facts import usable_cores
from mptctl.machine.jpeg_decoder import INSTALL, jpeg_decoder
from mptctl.names import Progress, Verify, tell_nobody

# Pillow's own limit against decompression bombs (0.25 GB of pixels): larger pictures are refused.
MAX_PIXELS = 89_478_485
# Formats that a decoder may get to see. MPO is a JPEG with more JPEGs behind it, as many phones write them.
_JPEG_FORMATS = ("JPEG", "MPO")
_ACCEPTED = (*_JPEG_FORMATS, "PNG")
# Grey levels by which two versions of one decoder may differ in a sound picture; here they do not differ.
_SAME_LEVEL = 4
_CHUNK = 512


@dataclass(frozen=True)
class CheckedFile:
    """The facts in the header of a good picture file."""

    height: int
    width: int
    kind: int  # STANDARD or NONSTANDARD
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
        verify: ``header`` reads the header and the last bytes; ``decode`` also decodes the picture, by two
            decoders where the loaders use two.

    Raises:
        DataError: what is wrong with it, without its name: empty, of a format that is not read or not its
            suffix's, cut off, too large, 16 bits a channel.
    """
    with without_warnings():
        return look_at(path, verify)


@contextmanager
def without_warnings() -> Iterator[None]:
    """Pillow warns of pictures larger than its limit, and of odd metadata; we refuse or take them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def look_at(path: str, verify: Verify) -> CheckedFile:
    """As `check_file`, for threads: `without_warnings` is theirs together, and stands around them all."""
    try:
        with open(path, "rb") as stream:
            stat = os.fstat(stream.fileno())
            return look_into(stream, path, verify, stat.st_size, stat.st_mtime_ns)
    except OSError as error:
        raise DataError(one_line(error)[:120]) from error


def look_into(stream: IO[bytes], name: str, verify: Verify, size: int, mtime: int = 0) -> CheckedFile:
    """Look at an encoded picture, wherever its bytes lie; for threads, as `look_at`.

    Args:
        stream: of the bytes, which can be sought in.
        name: of the picture, with its suffix.
        verify: as in `check_file`.
        size, mtime: bytes, and nanoseconds of the last change.

    Raises:
        DataError: as `check_file`.
    """
    try:
        if size == 0:
            raise DataError("empty")
        image = Image.open(stream)
        by_suffix = FORMATS.get(os.path.splitext(name)[1].lower())
        if image.format not in (*_ACCEPTED, by_suffix):
            raise DataError(f"is {image.format}, not {'JPEG or PNG' if by_suffix is None else by_suffix}")
        width, height = image.size
        if width * height > MAX_PIXELS:
            raise DataError(f"{width} x {height} pixels, more than {MAX_PIXELS} in all")
        if image.format not in _ACCEPTED:
            # Pillow would cut off what is more than 8 bits a channel.
            if image.mode.startswith(("I", "F")) or ";16" in str([tile[3] for tile in image.tile]):
                raise DataError("16 bits a channel or more; save it with 8")
            image.load()  # has no end marker: a file that is cut off is found by its data
            return CheckedFile(height, width, NONSTANDARD, size, mtime)
        is_jpeg = image.format in _JPEG_FORMATS
        scan = stream.tell() if image.format == "JPEG" else 0
        kind = _kind(image)
        if not is_in_order(stream, is_jpeg=is_jpeg):
            kind = NONSTANDARD
        if not _is_whole(stream, END_OF_JPEG if is_jpeg else END_OF_PNG, scan, is_jpeg):
            raise DataError("cut off: the end marker is missing")
        if verify == "decode":
            stream.seek(0)
            _refuse_what_decoders_read_in_several_ways(stream.read(), kind)
        return CheckedFile(height, width, kind, size, mtime)
    except DataError:
        raise
    except Image.DecompressionBombError as error:
        raise DataError(f"more than {MAX_PIXELS} pixels") from error
    except Image.UnidentifiedImageError as error:
        raise DataError("no readable header of a picture") from error
    except Exception as error:  # Pillow's plug-ins raise many kinds, SyntaxError and struct.error among them
        raise DataError(one_line(error)[:120]) from error


def check_files(
    root: str,
    paths: Sequence[str],
    *,
    verify: Verify = "header",
    threads: int = 0,
    progress: Progress = tell_nobody,
) -> CheckedFiles:
    """Look at many files below a folder in parallel; arguments, results and errors as of `check_pictures`."""
    return check_pictures(
        len(paths),
        lambda row: look_at(os.path.join(root, paths[row]), verify),
        verify=verify,
        threads=threads,
        progress=progress,
    )


def check_pictures(
    total: int,
    look: Callable[[int], CheckedFile],
    *,
    verify: Verify = "header",
    threads: int = 0,
    progress: Progress = tell_nobody,
) -> CheckedFiles:
    """Look at many pictures in parallel.

    Args:
        total: how many there are.
        look: looks at one of them, as `look_at` and `look_into` do.
        verify: as in `check_file`.
        threads: how many look at once; 0 takes the number of usable cores.
        progress: told how many files are done.

    Returns:
        One row a picture, and all problems: no exception for a bad one.

    Raises:
        UsageError: both decoders of ``decode`` would be one.
    """
    if verify == "decode" and (problem := jpeg_decoder().problem):
        raise UsageError(f"--verify decode: compares Pillow with torchcodec, and {problem}; {INSTALL}")
    columns = np.zeros((5, total), dtype=np.int64)
    problems: list[tuple[int, str]] = []
    starts = range(0, total, _CHUNK)

    def check(start: int) -> list[tuple[int, str]]:
        bad = []
        for row in range(start, min(start + _CHUNK, total)):
            try:
                found = look(row)
                columns[:, row] = (found.height, found.width, found.kind, found.size, found.mtime)
            except DataError as error:
                bad.append((row, str(error)))
        return bad

    with without_warnings(), ThreadPoolExecutor(threads or usable_cores()) as pool:
        for start, bad in zip(starts, pool.map(check, starts), strict=True):
            problems += bad
            progress("checking files", min(start + _CHUNK, total), total)
    return CheckedFiles(
        heights=columns[0].astype(np.int32),
        widths=columns[1].astype(np.int32),
        kinds=columns[2].astype(np.uint8),
        sizes=columns[3],
        mtimes=columns[4],
        problems=problems,
    )


def _kind(image: Image.Image) -> int:
    """The kind of a picture: STANDARD where every decoder reads it as Pillow's ``convert("RGB")`` does."""
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


def _refuse_what_decoders_read_in_several_ways(content: bytes, kind: int) -> None:
    """Decode a file by Pillow, and by the decoder of the loaders where that is another one."""
    from mptctl.data.pictures import decode, rgb  # which import torch

    picture = rgb(content).astype(np.int16)
    if kind == NONSTANDARD:
        return
    if content.startswith(START_OF_PNG):
        if fault := png_fault(content):
            raise DataError(fault)
        return
    try:
        other = decode(content, kind, "").numpy()
    except DataError as error:
        raise DataError("its data are damaged: not every decoder reads them") from error
    if np.abs(other - picture).max() > _SAME_LEVEL:
        raise DataError("its data are damaged: two decoders read two pictures")


def _is_whole(stream: IO[bytes], end: bytes, start: int, at_the_end: bool) -> bool:
    """Tell whether the end marker stands behind the header. Good files may have bytes after it.

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
