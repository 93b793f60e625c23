"""Identical pictures: found by size first and digest last, judged by the parts and labels that they have."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from mptctl.data.manifest import BAD, PART_CODES, TRAIN, Manifest
from mptctl.errors import DataError
from mptctl.files import Model
from mptctl.machine.facts import usable_cores
from mptctl.names import Progress, Verify, tell_nobody

# Bytes from the middle of a file that are compared before all of it is read.
_PIECE = 4096
_CHUNK = 256
LOOKING = "looking for identical pictures"


class DuplicatePicture(Model):
    """A picture that is identical with others."""

    id: str = Field(description="of the picture")
    part: str = Field(description="train, val or test; out where it is kept out")
    label: str = Field(description="its class")


class Duplicates(Model):
    """Identical pictures of a split, before any was kept out."""

    compared: str = Field(description="bytes of the files, or decoded pixels")
    sets: int = Field(description="sets of identical pictures")
    pictures: int = Field(description="pictures in them")
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
    """Find pictures of equal content.

    Args:
        manifest: its pictures that are kept out are left alone.
        verify: ``header`` compares bytes of files, ``decode`` decoded pixels.
        array: (M, H, W, 3) uint8 pictures of a source that is one array.
        progress: told how many pictures are compared.

    Returns:
        (M,) the number of the set of identical pictures that each is of; -1 for one without a twin.

    Raises:
        DataError: a file is gone or cannot be decoded.
    """
    rows = np.flatnonzero(manifest.parts != BAD)
    shape = [manifest.heights, manifest.widths]
    if array is not None:
        return _refined(rows, shape, len(manifest), lambda row: array[row].tobytes(), progress)
    if verify == "decode":
        from mptctl.data.pictures import decode_row  # which imports torch

        return _refined(
            rows, shape, len(manifest), lambda row: decode_row(manifest, row).numpy().tobytes(), progress
        )
    pieces = _refined(
        rows, [manifest.sizes, *shape], len(manifest), lambda row: _piece(manifest, row), progress
    )
    alike = np.flatnonzero(pieces >= 0)
    small = manifest.sizes[alike] <= _PIECE  # of these the piece is all
    found = _refined(alike[~small], [pieces], len(manifest), manifest.read, progress)
    found[alike[small]] = pieces[alike[small]] + int(found.max(initial=-1)) + 1
    return found


def describe(
    identical: NDArray[np.int64], manifest: Manifest, parts: NDArray[np.uint8], verify: Verify
) -> Duplicates | None:
    """Say which pictures are identical; None where none are.

    Args:
        identical: as of `find_identical`.
        manifest: of the pictures.
        parts: (M,) part of each.
        verify: how they were compared.
    """
    rows = np.flatnonzero(identical >= 0)
    if not len(rows):
        return None
    numbers, set_of = np.unique(identical[rows], return_inverse=True)
    in_parts = _several(set_of, parts[rows], len(numbers))
    in_labels = _several(set_of, manifest.labels[rows], len(numbers))
    words = {code: part for part, code in PART_CODES.items()} | {BAD: "out"}
    listed: dict[int, list[DuplicatePicture]] = {}
    shown = rows[(in_parts | in_labels)[set_of]]
    for row, name in zip(shown.tolist(), manifest.ids(shown).tolist(), strict=True):
        picture = DuplicatePicture(
            id=name, part=words[int(parts[row])], label=manifest.class_names[manifest.labels[row]]
        )
        listed.setdefault(int(identical[row]), []).append(picture)
    return Duplicates(
        compared="decoded pixels" if verify == "decode" or manifest.is_array else "bytes of the files",
        sets=len(numbers),
        pictures=len(rows),
        across_parts=int(in_parts.sum()),
        across_labels=int(in_labels.sum()),
        listed=list(listed.values()),
    )


def training_copies(
    identical: NDArray[np.int64], labels: NDArray[np.int32], parts: NDArray[np.uint8]
) -> NDArray[np.bool_]:
    """Pictures to keep out, so that no picture is in two parts, and none trains with two labels.

    Args:
        identical: (M,) as of `find_identical`.
        labels: (M,) class of each.
        parts: (M,) part of each.

    Returns:
        (M,) copies in all parts but the last one that has the picture; and all training copies of one whose
        labels contradict each other.
    """
    out = np.zeros(len(parts), dtype=np.bool_)
    rows = np.flatnonzero(identical >= 0)
    _, set_of = np.unique(identical[rows], return_inverse=True)
    count = int(set_of.max(initial=-1)) + 1
    last = np.zeros(count, dtype=np.uint8)
    np.maximum.at(last, set_of, parts[rows])
    contradict = _several(set_of, labels[rows], count)[set_of] & (parts[rows] == TRAIN)
    out[rows] = (parts[rows] != last[set_of]) | contradict
    return out


def keep_out_copies(
    identical: NDArray[np.int64], manifest: Manifest, parts: NDArray[np.uint8]
) -> tuple[NDArray[np.uint8], list[str]]:
    """The parts without `training_copies`, and a line with its twin for each of those."""
    out = training_copies(identical, manifest.labels, parts)
    members: dict[int, list[int]] = {}
    for row in np.flatnonzero(identical >= 0).tolist():
        members.setdefault(int(identical[row]), []).append(row)
    lines = []
    for row in np.flatnonzero(out).tolist():
        others = sorted(
            (each for each in members[int(identical[row])] if each != row), key=lambda each: bool(out[each])
        )
        twin = manifest.ids(np.array(others[:1]))[0]
        lines.append(
            f"{manifest.where(row)}: identical to {twin} ({manifest.class_names[manifest.labels[others[0]]]})"
        )
    return np.where(out, np.uint8(BAD), parts), lines


def _several(set_of: NDArray[np.int64], values: NDArray[np.integer], count: int) -> NDArray[np.bool_]:
    """(count,) whether a set has several values."""
    low, high = np.full(count, np.iinfo(np.int64).max), np.full(count, -1, dtype=np.int64)
    np.minimum.at(low, set_of, values.astype(np.int64))
    np.maximum.at(high, set_of, values.astype(np.int64))
    several: NDArray[np.bool_] = low != high
    return several


def _refined(
    rows: NDArray[np.int64],
    columns: Sequence[NDArray[np.integer]],
    total: int,
    content: Callable[[int], bytes],
    progress: Progress,
) -> NDArray[np.int64]:
    """Sets of rows that are equal in all columns and in their content, which only these are asked for."""
    found = np.full(total, -1, dtype=np.int64)
    alike = rows[_sets([column[rows] for column in columns]) >= 0]
    digests = np.zeros((2, total), dtype=np.int64)

    def digest(start: int) -> None:
        for row in alike[start : start + _CHUNK].tolist():
            word = hashlib.blake2b(content(row), digest_size=16).digest()
            digests[:, row] = np.frombuffer(word, dtype=np.int64)

    starts = range(0, len(alike), _CHUNK)
    with ThreadPoolExecutor(usable_cores()) as pool:
        for start, _ in zip(starts, pool.map(digest, starts), strict=True):
            progress(LOOKING, min(start + _CHUNK, len(alike)), len(alike))
    found[alike] = _sets([*(column[alike] for column in columns), *digests[:, alike]])
    return found


def _sets(columns: Sequence[NDArray[np.integer]]) -> NDArray[np.int64]:
    """(n,) the number of the set of rows that are equal in all columns; -1 for a row without a twin."""
    order = np.lexsort(list(columns))
    differs = np.zeros(max(len(order) - 1, 0), dtype=np.bool_)
    for column in columns:
        ordered = column[order]
        differs |= ordered[1:] != ordered[:-1]
    number = np.concatenate([np.zeros(min(1, len(order)), dtype=np.int64), np.cumsum(differs)])
    sets = np.empty(len(order), dtype=np.int64)
    sets[order] = np.where(np.bincount(number, minlength=1)[number] > 1, number, -1)
    return sets


def _piece(manifest: Manifest, row: int) -> bytes:
    """The middle of a file; all of a small one."""
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
