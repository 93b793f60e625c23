"""The manifest: one row for each picture of a source, whatever its part."""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError
from mptctl.files import replacing

TRAIN, VAL, TEST, BAD = 0, 1, 2, 3
PART_CODES: dict[str, int] = {"train": TRAIN, "val": VAL, "test": TEST}

# Kinds of pictures. STANDARD: every decoder gives the pixels of Pillow. NONSTANDARD: decoders differ (CMYK,
# palettes, transparency), and Pillow's pixels count. ARRAY: a row of the source's array, not a file.
STANDARD, NONSTANDARD, ARRAY = 0, 1, 2

MANIFEST_VERSION = 1


@dataclass(frozen=True, eq=False)
class Manifest:
    """The M pictures of a source: rows of the training part first, rows of the test part last.

    Attributes:
        source: name of the source, one of `mptctl.names.Source`.
        root: data folder; None for the embedded sources.
        class_names: names of the classes, in the source's own order.
        labels: (M,) int32 index into ``class_names``.
        parts: (M,) uint8 TRAIN, VAL, TEST, or BAD for a picture that is kept out.
        heights, widths: (M,) int32, in pixels.
        kinds: (M,) uint8 STANDARD, NONSTANDARD or ARRAY.
        path_bytes, path_offsets: paths below ``root``, or names within shards, as of `pack_paths`; empty for
            a source that is one array.
        sizes: (M,) int64 bytes of each picture when it was checked; empty for an array.
        mtimes: int64 nanoseconds of the last change of each file, (M,), or of each shard, (S,), when it was
            checked; empty for an array.
        content: digest of the source's array; "" for files.
        id_bytes, id_offsets: ids, as of `pack_paths`; empty where the paths or names are the ids.
        shards: paths below ``root`` of the S tar files with the pictures; () where each picture is a file.
        shard_sizes: (S,) int64 bytes of each shard when it was checked.
        shard_rows: (M,) int32 index into ``shards``.
        starts: (M,) int64 offset of each picture within its shard.
    """

    source: str
    root: Path | None
    class_names: tuple[str, ...]
    labels: NDArray[np.int32]
    parts: NDArray[np.uint8]
    heights: NDArray[np.int32]
    widths: NDArray[np.int32]
    kinds: NDArray[np.uint8]
    path_bytes: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, dtype=np.uint8))
    path_offsets: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    sizes: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    mtimes: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    content: str = ""
    id_bytes: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, dtype=np.uint8))
    id_offsets: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    shards: tuple[str, ...] = ()
    shard_sizes: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))
    shard_rows: NDArray[np.int32] = field(default_factory=lambda: np.empty(0, dtype=np.int32))
    starts: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def is_array(self) -> bool:
        """True for a source that is one array in memory; else `read` returns the encoded bytes of a row."""
        return len(self.path_offsets) == 0

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the rows without folder and times of change, so it stays when the data are copied."""
        digest = hashlib.blake2b(digest_size=16)
        head = [MANIFEST_VERSION, self.source, list(self.class_names), self.content, len(self)]
        digest.update(json.dumps(head).encode())
        columns = (self.labels, self.parts, self.kinds, self.path_bytes, self.path_offsets, self.sizes)
        for column in (*columns, self.id_bytes, self.id_offsets):
            digest.update(np.ascontiguousarray(column).data)
        return digest.hexdigest()

    @cached_property
    def digest(self) -> str:
        """Digest of all columns, also those that `fingerprint` leaves out; it is part of the file's name."""
        digest = hashlib.blake2b(self.fingerprint.encode(), digest_size=16)
        digest.update("".join(self.shards).encode())
        for column in (
            *(self.heights, self.widths, self.mtimes),
            *(self.shard_sizes, self.shard_rows, self.starts),
        ):
            digest.update(np.ascontiguousarray(column).data)
        return digest.hexdigest()

    def relative_path(self, index: int) -> str:
        """Return the path of one picture below the root, with ``/`` in it, or its name in a shard."""
        return _unpack_path(self.path_bytes, self.path_offsets, index)

    def file(self, index: int) -> str:
        """Return the full path of the picture file, or of the shard, of one picture."""
        name = self.shards[self.shard_rows[index]] if self.shards else self.relative_path(index)
        return os.path.join(str(self.root), name)

    def where(self, index: int) -> str:
        """Return the place of one picture for messages: the file, or the shard and the name in it."""
        return f"{self.file(index)}: {self.relative_path(index)}" if self.shards else self.file(index)

    def read(self, index: int) -> bytes:
        """Read the encoded bytes of one picture.

        Raises:
            DataError: the file is gone, or cannot be read.
        """
        try:
            with open(self.file(index), "rb", buffering=0) as stream:
                if not self.shards:
                    return stream.read()
                return os.pread(stream.fileno(), int(self.sizes[index]), int(self.starts[index]))
        except OSError as error:
            raise DataError(
                f"{self.where(index)}: gone since split ({error.strerror}); "
                "restore it, or run split --overwrite"
            ) from error

    def ids(self, indices: NDArray[np.int64]) -> NDArray[np.str_]:
        """Return the ids of rows, by which predictions of different programs are matched.

        Args:
            indices: (n,) rows of the manifest.

        Returns:
            (n,) ids of a table that has ids; else paths below the data root, or names within shards; for an
            array, ``train/00042`` or ``test/00042`` by the row in the source's part.
        """
        if len(self.id_offsets):
            names = [_unpack_path(self.id_bytes, self.id_offsets, row) for row in indices.tolist()]
            return np.array(names, dtype=np.str_)
        if not self.is_array:
            return np.array([self.relative_path(row) for row in indices.tolist()], dtype=np.str_)
        first_test = int(np.count_nonzero(self.parts != TEST))
        return np.array(
            [
                f"train/{row:05d}" if row < first_test else f"test/{row - first_test:05d}"
                for row in indices.tolist()
            ],
            dtype=np.str_,
        )

    def check_unchanged(self, indices: NDArray[np.int64]) -> None:
        """Compare the files, or shards, of rows with size and time of change when they were checked.

        Nothing is compared for an array.

        Args:
            indices: (n,) rows of the manifest.

        Raises:
            DataError: a file is gone, or its size or time of change differs.
        """
        if self.is_array:
            return
        sizes = self.shard_sizes if self.shards else self.sizes
        files = np.unique(self.shard_rows[indices]) if self.shards else indices
        for file in files.tolist():
            path = os.path.join(
                str(self.root), self.shards[file] if self.shards else self.relative_path(file)
            )
            try:
                now = os.stat(path)
            except OSError as error:
                raise DataError(
                    f"{path}: gone since split ({error.strerror}); restore it, name the folder that pictures "
                    "have moved to with --data-root, or run split --overwrite"
                ) from error
            if now.st_size != sizes[file] or now.st_mtime_ns != self.mtimes[file]:
                raise DataError(
                    f"{path}: changed since split; restore it, or run split --overwrite to check it again"
                )

    def save(self, path: Path) -> None:
        """Write everything but the root to one ``.npz`` file, which `load_manifest` reads.

        Raises:
            StorageError: the file cannot be written.
        """
        filled = [name for name in _FURTHER_COLUMNS if len(getattr(self, name))]
        columns = {name: getattr(self, name) for name in (*_COLUMNS, *filled)}
        head: dict[str, object] = {"version": MANIFEST_VERSION, "source": self.source}
        head |= {"class_names": list(self.class_names), "content": self.content}
        if self.shards:
            head["shards"] = list(self.shards)
        with replacing(path) as stream:
            np.savez(stream, head=np.frombuffer(json.dumps(head).encode(), dtype=np.uint8), **columns)


_LONGEST_HEADER = 1024  # bytes before a column's numbers at most; numpy writes 128
# Columns that every manifest has, and columns that may be empty: those are not written then.
_COLUMNS = ("labels", "parts", "heights", "widths", "kinds")
_FURTHER_COLUMNS = (
    *("path_bytes", "path_offsets", "sizes", "mtimes"),
    *("id_bytes", "id_offsets", "shard_sizes", "shard_rows", "starts"),
)


def load_manifest(path: Path, root: Path | None) -> Manifest:
    """Read a manifest that `Manifest.save` wrote.

    Args:
        path: the ``.npz`` file.
        root: folder of the data now; None for the embedded sources.

    Raises:
        DataError: the file is missing, damaged or of another version, or has a label without a class.
    """
    advice = "run mptctl split again with --overwrite"
    try:
        columns = _read_columns(path)
        head: dict[str, Any] = json.loads(columns.pop("head").tobytes())
        if no_integers := [name for name, column in columns.items() if column.dtype.kind not in "iu"]:
            raise DataError(f"{path}: its {no_integers[0]} are no integers; {advice}")
        if head["version"] != MANIFEST_VERSION:
            raise DataError(f"{path}: a manifest of version {head['version']}; {advice}")
        manifest = Manifest(
            source=head["source"],
            root=root,
            class_names=tuple(head["class_names"]),
            content=head["content"],
            shards=tuple(head.get("shards", ())),
            **columns,
        )
        _refuse_unknown_labels(manifest, path)
        return manifest
    except FileNotFoundError as error:
        raise DataError(f"{path}: not there; {advice}") from error
    except (DataError, MemoryError):
        raise
    except Exception as error:  # numpy and zipfile raise a dozen kinds, of zlib, struct and the tokenizer too
        raise DataError(f"{path}: not a readable manifest; {advice}") from error


def _read_columns(path: Path) -> dict[str, NDArray[Any]]:
    """Read the columns of a manifest from an ``.npz`` file, and compare each with its checksum.

    `np.load` takes half as long again for 1.28 million rows, since it reads small pieces and copies them.

    Raises:
        ValueError, or one of many other kinds: the file is damaged.
    """
    columns: dict[str, NDArray[Any]] = {}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            # Not bzip2, which numpy does not write, and of which a kilobyte can unpack to gigabytes.
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError("compressed in another way")
            name = info.filename.removesuffix(".npy")
            if name not in ("head", *_COLUMNS, *_FURTHER_COLUMNS):
                continue
            content = np.empty(info.file_size, dtype=np.uint8)
            with archive.open(info) as member:
                cast(io.BufferedIOBase, member).readinto(content.data)
            header = io.BytesIO(content[:_LONGEST_HEADER].tobytes())
            np.lib.format.read_magic(header)
            shape, _, dtype = np.lib.format.read_array_header_1_0(header)
            columns[name] = content[header.tell() :].view(dtype).reshape(shape)
    return columns


def _refuse_unknown_labels(manifest: Manifest, path: Path) -> None:
    """Raise DataError for a label without a class or an unknown part; ValueError for columns of another type.

    Without this, a label of -1 would count as the last class.
    """
    if manifest.labels.dtype.kind != "i" or manifest.parts.dtype != np.uint8:
        raise ValueError("labels or parts of another type")
    classes = len(manifest.class_names)
    rows = np.flatnonzero((manifest.labels < 0) | (manifest.labels >= classes) | (manifest.parts > BAD))
    if len(rows):
        row = int(rows[0])
        raise DataError(
            f"{path}: {len(rows)} rows have a label or a part that there is not, row {row} first "
            f"(label {manifest.labels[row]} of {classes} classes, part {manifest.parts[row]}); "
            "run mptctl split again with --overwrite"
        )


def content_digest(pictures: NDArray[np.uint8]) -> str:
    """Compute the digest of an array of pictures of any shape, by which a later change is found."""
    return hashlib.blake2b(np.ascontiguousarray(pictures).data, digest_size=16).hexdigest()


def _unpack_path(packed: NDArray[np.uint8], offsets: NDArray[np.int64], index: int) -> str:
    """Return one of the paths that `pack_paths` packed."""
    return os.fsdecode(packed[offsets[index] : offsets[index + 1]].tobytes())


def pack_paths(paths: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Pack n paths into one array of bytes.

    Returns:
        (total,) bytes of all paths, and (n + 1,) offsets: path i has the bytes from offset i to offset i + 1.
    """
    encoded = [os.fsencode(path) for path in paths]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(path) for path in encoded], out=offsets[1:])
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets
