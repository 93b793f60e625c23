"""Finds identical pictures, and keeps copies out that lie in several parts or have several labels."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from mptctl.data.ahead import map_chunks
from mptctl.data.manifest import BAD, PART_NAMES, TRAIN, Manifest
from mptctl.errors import DataError
from mptctl.files import Model
from mptctl.names import Progress, Verify, tell_nobody

# Bytes from the middle of a file that are compared before whole files are.
_PIECE = 4096
_CHUNK = 256
LOOKING = "looking for identical pictures"


class DuplicatePicture(Model):
    """A picture that is identical to others."""

    id: str = Field(description="id of the picture")
    part: str = Field(description="train, val or test; out where it is kept out")
    label: str = Field(description="class of the picture")


class Duplicates(Model):
    """The identical pictures of a split, counted before any is kept out."""

    compared: str = Field(description="compared: bytes of the files, or decoded pixels")
    sets: int = Field(description="sets of identical pictures")
    pictures: int = Field(description="pictures in these sets")
    across_parts: int = Field(description="sets with pictures in several parts")
    across_labels: int = Field(description="sets with pictures of several classes")
    kept_out: int = Field(0, description="copies that are kept out")
    listed: list[list[DuplicatePicture]] = Field(description="the sets across parts or labels")


def find_identical(
    manifest: Manifest,
    *,
    verify: Verify = "header",
    array: NDArray[np.uint8] | None = None,
    progress: Progress = tell_nobody,
) -> NDArray[np.int64]:
    """Find sets of identical pictures.

    Pictures are compared by size first, then files by the bytes in their middle, and last by all content. A
    file that is no longer than its middle is read once.

    Args:
        manifest: the pictures; those of the part BAD are left out.
        verify: ``header`` compares bytes of files, ``decode`` decoded pixels.
        array: (M, H, W, 3) uint8 pictures of a source that is one array; None for files.
        progress: shows how many pictures are compared.

    Returns:
        (M,) number of the set of each picture; -1 for a picture without a twin.

    Raises:
        DataError: a file is gone or cannot be decoded.
    """
    rows = np.flatnonzero(manifest.parts != BAD)
    shape = (manifest.heights, manifest.widths)
    if array is not None:
        return _find_sets(rows, shape, lambda row: array[row].tobytes(), progress)
    if verify == "decode":
        from mptctl.data.pictures import decode_row  # which imports torch

        return _find_sets(rows, shape, lambda row: decode_row(manifest, row).numpy().tobytes(), progress)
    columns = (manifest.sizes, *shape)
    by_middle = _find_sets(rows, columns, lambda row: _read_middle(manifest, row), progress)

    def read_beyond_middle(row: int) -> bytes:
        return manifest.read(row) if manifest.sizes[row] > _PIECE else b""

    return _find_sets(np.flatnonzero(by_middle >= 0), [by_middle], read_beyond_middle, progress)


def describe_identical(
    identical: NDArray[np.int64], manifest: Manifest, parts: NDArray[np.uint8], verify: Verify
) -> Duplicates | None:
    """Count the sets of identical pictures, and list those across parts or labels; None without any set.

    Args:
        identical: (M,) what `find_identical` returned.
        manifest: the pictures.
        parts: (M,) part of each picture; those of the manifest do not count.
        verify: how pictures were compared; see `find_identical`.
    """
    rows = np.flatnonzero(identical >= 0)
    if not len(rows):
        return None
    sets = identical[rows]
    across_parts = _has_several(sets, parts[rows])
    across_labels = _has_several(sets, manifest.labels[rows])
    listed: dict[int, list[DuplicatePicture]] = {}
    rows_to_list = rows[(across_parts | across_labels)[sets]]
    for row, name in zip(rows_to_list.tolist(), manifest.ids(rows_to_list).tolist(), strict=True):
        picture = DuplicatePicture(
            id=name, part=PART_NAMES[int(parts[row])], label=manifest.class_names[manifest.labels[row]]
        )
        listed.setdefault(int(identical[row]), []).append(picture)
    return Duplicates(
        compared="decoded pixels" if verify == "decode" or manifest.is_array else "bytes of the files",
        sets=len(np.unique(sets)),
        pictures=len(rows),
        across_parts=int(across_parts.sum()),
        across_labels=int(across_labels.sum()),
        listed=list(listed.values()),
    )


def choose_copies(
    identical: NDArray[np.int64], labels: NDArray[np.int32], parts: NDArray[np.uint8]
) -> NDArray[np.bool_]:
    """Choose copies to keep out, so that no picture is in two parts, and none trains with two labels.

    Args:
        identical: (M,) what `find_identical` returned.
        labels: (M,) class of each picture.
        parts: (M,) part of each picture.

    Returns:
        (M,) True for copies in any part but the last one of their set, and for all training copies of a set
        with several labels.
    """
    rows = np.flatnonzero(identical >= 0)
    sets = identical[rows]
    last_part_of_set = np.zeros(len(parts), dtype=np.uint8)
    np.maximum.at(last_part_of_set, sets, parts[rows])
    has_later_copy = parts[rows] != last_part_of_set[sets]
    has_several_labels = _has_several(sets, labels[rows])[sets]
    is_out = np.zeros(len(parts), dtype=np.bool_)
    is_out[rows] = has_later_copy | (has_several_labels & (parts[rows] == TRAIN))
    return is_out


def keep_out_copies(
    identical: NDArray[np.int64], manifest: Manifest, parts: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], list[str]]:
    """Keep out the copies that `choose_copies` chooses.

    Returns:
        (M,) part of each picture, BAD for these copies, and for each of them a line that names a twin: one
        that stays, if there is one.
    """
    is_out = choose_copies(identical, manifest.labels, parts)
    lines = []
    candidates = np.flatnonzero(identical >= 0)
    for row in np.flatnonzero(is_out).tolist():
        copies = candidates[identical[candidates] == identical[row]]
        twins = copies[copies != row]
        staying = twins[~is_out[twins]]
        twin = (staying if len(staying) else twins)[:1]
        (twin_id,) = manifest.ids(twin)
        twin_class = manifest.class_names[manifest.labels[twin[0]]]
        lines.append(f"{manifest.where(row)}: identical to {twin_id} ({twin_class})")
    return np.where(is_out, np.uint8(BAD), parts), lines


def _has_several(sets: NDArray[np.int64], values: NDArray[np.integer]) -> NDArray[np.bool_]:
    """Tell for each number of a set whether the set's rows have different values; arguments are (n,)."""
    different = np.unique(np.stack([sets, values.astype(np.int64)]), axis=1)
    return np.bincount(different[0]) > 1


def _find_sets(
    rows: NDArray[np.int64],
    columns: Sequence[NDArray[np.integer]],
    content: Callable[[int], bytes],
    progress: Progress,
) -> NDArray[np.int64]:
    """Find sets of rows that are equal in all columns and in their content.

    Args:
        rows: rows of the manifest that are compared.
        columns: (M,) each; only rows that are equal in all of them are compared by content.
        content: returns the bytes of a row that count, in any thread.
        progress: shows how many contents are read.

    Returns:
        (M,) number of the set of each row; -1 for a row without a twin, or not in ``rows``.
    """
    candidates = rows[_number_sets([column[rows] for column in columns]) >= 0]

    def digest_chunk(chunk: range) -> bytes:
        contents = (content(row) for row in candidates[chunk.start : chunk.stop].tolist())
        return b"".join(hashlib.blake2b(each, digest_size=16).digest() for each in contents)

    digests = b"".join(map_chunks(digest_chunk, len(candidates), _CHUNK, LOOKING, progress))
    halves = np.frombuffer(digests, dtype=np.int64).reshape(-1, 2).T
    sets = np.full(len(columns[0]), -1, dtype=np.int64)
    sets[candidates] = _number_sets([*(column[candidates] for column in columns), *halves])
    return sets


def _number_sets(columns: Sequence[NDArray[np.integer]]) -> NDArray[np.int64]:
    """Number the sets of rows that are equal in all (n,) columns: (n,), -1 for a row without a twin."""
    # Sorted by columns, since np.unique over rows takes about five times as long for a million of them.
    order = np.lexsort(list(columns))
    differs_from_previous = np.zeros(len(order), dtype=np.bool_)
    for column in columns:
        ordered = column[order]
        differs_from_previous[1:] |= ordered[1:] != ordered[:-1]
    number = np.cumsum(differs_from_previous)
    sets = np.empty(len(order), dtype=np.int64)
    sets[order] = np.where(np.bincount(number, minlength=1)[number] > 1, number, -1)
    return sets


def _read_middle(manifest: Manifest, row: int) -> bytes:
    """Read `_PIECE` bytes from the middle of a picture's file, or all of a smaller one.

    Raises:
        DataError: the file is gone.
    """
    size = int(manifest.sizes[row])
    try:
        file = os.open(manifest.file(row), os.O_RDONLY)
    except OSError as error:
        raise DataError(f"{manifest.where(row)}: gone since it was checked ({error.strerror})") from error
    try:
        begin = int(manifest.starts[row]) if manifest.shards else 0
        return os.pread(file, min(size, _PIECE), begin + max(0, (size - _PIECE) // 2))
    finally:
        os.close(file)
