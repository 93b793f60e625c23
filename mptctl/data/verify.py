"""Checks header and end of picture files in parallel, before anything else decodes them."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from mptctl.data.ahead import map_chunks
from mptctl.data.exif import find_orientation
from mptctl.data.manifest import NONSTANDARD, STANDARD
from mptctl.data.picture_kinds import FORMATS
from mptctl.data.picture_structure import END_OF_JPEG, END_OF_PNG, START_OF_PNG, find_png_fault, is_in_order
from mptctl.errors import DataError, UsageError, one_line
from mptctl.machine.jpeg_decoder import INSTALL, jpeg_decoder
from mptctl.names import Progress, Verify, tell_nobody

# Pixels of a picture at most: Pillow's own limit against decompression bombs (0.25 GB).
MAX_PIXELS = 89_478_485
# Pixels of a side of a PNG file at most: libpng's own limit, which DALI keeps and Pillow does not.
MAX_PNG_SIDE = 1_000_000
# Formats that every decoder may get. MPO is a JPEG file with more JPEG files behind it, as many phones write.
_JPEG_FORMATS = ("JPEG", "MPO")
_ACCEPTED = (*_JPEG_FORMATS, "PNG")
# Grey levels by which two decoders may differ in a good picture; the present versions do not differ.
_SAME_LEVEL = 4
_CHUNK = 512


class CheckedFile(NamedTuple):
    """Facts of a good picture: size in pixels, kind, EXIF orientation, bytes, last change in nanoseconds."""

    height: int  # as stored
    width: int
    kind: int  # STANDARD or NONSTANDARD
    orientation: int  # 1 to 8
    size: int
    mtime: int


_FACTS = np.dtype({"names": CheckedFile._fields, "formats": ["i4", "i4", "u1", "u1", "i8", "i8"]})


class CheckedFiles(NamedTuple):
    """The result of checking n files.

    Attributes:
        facts: (n,) rows with the fields of `CheckedFile`; zeros for a bad file.
        problems: what is wrong with each bad file, by row.
    """

    facts: NDArray[Any]
    problems: dict[int, str]


def check_file(path: str, verify: Verify = "header") -> CheckedFile:
    """Check one picture file.

    Args:
        path: path of the file.
        verify: ``header`` reads the header and the last bytes; ``decode`` also decodes the picture, with two
            decoders if the loaders use two.

    Raises:
        DataError: the file is bad: empty, cut off, damaged, too large, with 16 bits a channel, or of a format
            that is not read or does not fit its suffix. The message does not name the file.
    """
    with without_warnings():
        return check_path(path, verify)


@contextmanager
def without_warnings() -> Iterator[None]:
    """Silence Pillow's warnings of large pictures and odd metadata, which are refused or accepted here."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def check_path(path: str, verify: Verify) -> CheckedFile:
    """Check one picture file, in any thread; arguments and errors: see `check_file`.

    Warnings are not silenced: the caller runs all threads within one `without_warnings`.
    """
    try:
        with open(path, "rb") as stream:
            stat = os.fstat(stream.fileno())
            return check_stream(stream, path, verify, stat.st_size, stat.st_mtime_ns)
    except OSError as error:
        raise DataError(one_line(error)[:120]) from error


def _refuse_size(image: Image.Image) -> None:
    """Raise DataError for a picture of more pixels than Pillow or DALI reads."""
    width, height = image.size
    if width * height > MAX_PIXELS:
        raise DataError(f"{width} x {height} pixels, more than {MAX_PIXELS} in all")
    if image.format == "PNG" and max(width, height) > MAX_PNG_SIDE:
        raise DataError(f"{width} x {height} pixels, and a side of a PNG file has at most {MAX_PNG_SIDE}")


def check_stream(stream: IO[bytes], name: str, verify: Verify, size: int, mtime: int = 0) -> CheckedFile:
    """Check an encoded picture in a stream, in any thread, as `check_path` does.

    Args:
        stream: a seekable stream of the picture's bytes.
        name: name of the picture, with its suffix.
        verify: see `check_file`.
        size, mtime: number of bytes, and nanoseconds of the last change.

    Raises:
        DataError: see `check_file`.
    """
    try:
        if size == 0:
            raise DataError("empty")
        image = Image.open(stream)
        by_suffix = FORMATS.get(os.path.splitext(name)[1].lower())
        if image.format not in (*_ACCEPTED, by_suffix):
            raise DataError(f"is {image.format}, not {'JPEG or PNG' if by_suffix is None else by_suffix}")
        width, height = image.size
        _refuse_size(image)
        if has_16_bits(image):
            raise DataError("16 bits a channel or more; save it with 8")
        if image.format not in _ACCEPTED:
            image.load()  # finds a file that is cut off, since these formats have no end marker
            orientation = find_orientation(image, stream).value
            return CheckedFile(height, width, NONSTANDARD, orientation, size, mtime)
        is_jpeg = image.format in _JPEG_FORMATS
        scan = stream.tell() if image.format == "JPEG" else 0
        kind = _find_kind(image)
        found = find_orientation(image, stream)
        if not is_in_order(stream, is_jpeg=is_jpeg) or not found.is_plain:
            kind = NONSTANDARD
        if not _is_whole(stream, END_OF_JPEG if is_jpeg else END_OF_PNG, scan, is_jpeg):
            raise DataError("cut off: the end marker is missing")
        if verify == "decode":
            stream.seek(0)
            _compare_decoders(stream.read(), kind)
        return CheckedFile(height, width, kind, found.value, size, mtime)
    except DataError:
        raise
    except Image.DecompressionBombError as error:
        raise DataError(f"more than {MAX_PIXELS} pixels") from error
    except Image.UnidentifiedImageError as error:
        raise DataError("no readable header of a picture") from error
    except Exception as error:  # Pillow's plug-ins raise many kinds, SyntaxError and struct.error among them
        raise DataError(one_line(error)[:120]) from error


def check_pictures(
    total: int,
    look: Callable[[int], CheckedFile],
    *,
    verify: Verify = "header",
    threads: int = 0,
    progress: Progress = tell_nobody,
) -> CheckedFiles:
    """Check many pictures in parallel; a bad picture becomes a problem in the result, and no error.

    Args:
        total: number of pictures.
        look: checks the picture of a row, in any thread; raises DataError for a bad one.
        verify: see `check_file`.
        threads: number of threads; 0: the number of usable cores.
        progress: shows how many pictures are done.

    Raises:
        UsageError: ``verify`` is ``decode``, and the second decoder is not installed.
    """
    problem = jpeg_decoder().problem if verify == "decode" else None
    if problem:
        raise UsageError(f"--verify decode: compares Pillow with torchcodec, and {problem}; {INSTALL}")
    found = CheckedFiles(np.zeros(total, dtype=_FACTS), {})

    def check_chunk(chunk: range) -> dict[int, str]:
        bad = {}
        for row in chunk:
            try:
                found.facts[row] = look(row)
            except DataError as error:
                bad[row] = str(error)
        return bad

    with without_warnings():
        for bad in map_chunks(check_chunk, total, _CHUNK, "checking files", progress, threads=threads):
            found.problems.update(bad)
    return found


def has_16_bits(image: Image.Image) -> bool:
    """Tell whether a picture has 16 bits a channel or more, which Pillow would cut down to 8."""
    # Of a file that is open and not decoded, the tiles tell how each pixel is stored.
    return image.mode.startswith(("I", "F")) or ";16" in str(getattr(image, "tile", ""))


def _find_kind(image: Image.Image) -> int:
    """Return STANDARD if every decoder gives the pixels of Pillow's ``convert("RGB")``, else NONSTANDARD."""
    if image.format == "PNG":
        is_plain = image.mode in ("RGB", "L") and image.tile[0][3] == image.mode
        is_animated = bool(getattr(image, "is_animated", False))
        return STANDARD if is_plain and not is_animated and "transparency" not in image.info else NONSTANDARD
    # A JPEG file may store red, green and blue as such: Adobe's marker or the names of the components say so.
    names = tuple(component[0] for component in getattr(image, "layer", ()))
    has_rgb_names = "jfif" not in image.info and names == tuple(b"RGB")
    is_stored_as_rgb = image.info.get("adobe_transform") == 0 or has_rgb_names
    return STANDARD if image.mode == "L" or (image.mode == "RGB" and not is_stored_as_rgb) else NONSTANDARD


def _compare_decoders(content: bytes, kind: int) -> None:
    """Decode a picture by Pillow, and a STANDARD JPEG file also by the decoder of the loaders.

    A STANDARD PNG file is searched for faults instead that Pillow overlooks.

    Args:
        content: bytes of the file.
        kind: STANDARD or NONSTANDARD.

    Raises:
        DataError: the data are damaged, or two decoders give different pixels; or what Pillow raises.
    """
    from mptctl.data.pictures import decode, decode_by_pillow  # which import torch

    picture = decode_by_pillow(content).astype(np.int16)
    if kind == NONSTANDARD:
        return
    if content.startswith(START_OF_PNG):
        if fault := find_png_fault(content):
            raise DataError(fault)
        return
    try:
        other = decode(content, kind, "").numpy()
    except DataError as error:
        raise DataError("its data are damaged: not every decoder reads them") from error
    if np.abs(other - picture).max() > _SAME_LEVEL:
        raise DataError("its data are damaged: two decoders read two pictures")


def _is_whole(stream: IO[bytes], end: bytes, start: int, is_jpeg: bool) -> bool:
    """Tell whether the end marker of a picture stands in its file; good files may have bytes after it.

    The two bytes of a JPEG file's end marker cannot occur in its coded data, but can in its header, whose
    thumbnail has one of its own. So the search begins behind the header.

    Args:
        stream: the file; its position changes.
        end: the end marker.
        start: offset at which the search begins, if the marker is not among the last bytes.
        is_jpeg: True for a JPEG file, which usually ends in the marker; a PNG file has a checksum after it.
    """
    last = len(end) if is_jpeg else min(64, stream.seek(0, os.SEEK_END))
    stream.seek(-last, os.SEEK_END)
    if end in stream.read():
        return True
    stream.seek(start)
    return end in stream.read()
