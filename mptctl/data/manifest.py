"""The manifest: one row a picture, in one index space over training, validation and test part."""

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

# The ways in which a row's bytes are read. STANDARD: every decoder agrees with PIL. NONSTANDARD: only PIL's
# reading counts (CMYK, palettes, transparency). ARRAY: not a file of its own, but a row of the source's
# array.
STANDARD, NONSTANDARD, ARRAY = 0, 1, 2

MANIFEST_VERSION = 1


@dataclass(frozen=True, eq=False)
class Manifest:
    """Every picture of a source. Rows of the source's training part come first, then those of its test part.

    Attributes:
        source: its name, as `mptctl.names.Source` lists them.
        root: data folder; None for the embedded sources.
        class_names: in the source's own order.
        labels: (M,) int32 index into ``class_names``.
        parts: (M,) uint8: TRAIN, VAL, TEST, or BAD for a picture that is kept out.
        heights, widths: (M,) int32, in pixels.
        kinds: (M,) uint8: STANDARD, NONSTANDARD or ARRAY.
        path_bytes, path_offsets: paths below ``root``, or names within a shard, end to end, and where each
            begins, (M + 1,) int64; empty where the source is one array.
        sizes: (M,) int64 bytes of each picture when it was checked; likewise.
        mtimes: nanoseconds of each file then, (M,) int64, or of each shard, (S,).
        content: digest of the source's array; empty for files.
        id_bytes, id_offsets: as the paths, where ids are no paths.
        shards: paths below ``root`` of the tar files that pictures lie in; none where they are files.
        shard_sizes: (S,) int64 bytes of each shard when it was checked.
        shard_rows, starts: (M,) int32 the shard of each picture, and (M,) int64 where it begins there.
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
        """True where the source is one array in memory; else `read` gives the encoded bytes of each row."""
        return len(self.path_offsets) == 0

    @cached_property
    def fingerprint(self) -> str:
        """Digest of what the rows say, wherever the data lie and whenever they were copied."""
        digest = hashlib.blake2b(digest_size=16)
        head = [MANIFEST_VERSION, self.source, list(self.class_names), self.content, len(self)]
        digest.update(json.dumps(head).encode())
        columns = (self.labels, self.parts, self.kinds, self.path_bytes, self.path_offsets, self.sizes)
        for column in (*columns, self.id_bytes, self.id_offsets):
            digest.update(np.ascontiguousarray(column).data)
        return digest.hexdigest()

    @cached_property
    def digest(self) -> str:
        """Digest of every column, those that the fingerprint leaves out too; its beginning names the file."""
        digest = hashlib.blake2b(self.fingerprint.encode(), digest_size=16)
        digest.update("".join(self.shards).encode())
        columns = (self.heights, self.widths, self.mtimes, self.shard_sizes, self.shard_rows, self.starts)
        for column in columns:
            digest.update(np.ascontiguousarray(column).data)
        return digest.hexdigest()

    def relative_path(self, index: int) -> str:
        """Path of one picture below the root, with ``/`` between folders, or its name within its shard."""
        return _packed_name(self.path_bytes, self.path_offsets, index)

    def file(self, index: int) -> str:
        """Full path of the file that one picture is, or lies in."""
        name = self.shards[self.shard_rows[index]] if self.shards else self.relative_path(index)
        return os.path.join(str(self.root), name)

    def where(self, index: int) -> str:
        """The place of one picture's bytes, for messages."""
        return f"{self.file(index)}: {self.relative_path(index)}" if self.shards else self.file(index)

    def read(self, index: int) -> bytes:
        """Encoded bytes of one picture.

        Raises:
            DataError: they are gone, or cannot be read.
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
        """Names by which predictions of different programs are matched.

        Args:
            indices: (n,) rows of the manifest.

        Returns:
            (n,) paths below the data root, names within shards, ids of a table that has some, or
            ``train/00042``, ``test/00042`` for rows of an array.
        """
        if len(self.id_offsets):
            names = [_packed_name(self.id_bytes, self.id_offsets, i) for i in indices.tolist()]
            return np.array(names, dtype=np.str_)
        if not self.is_array:
            return np.array([self.relative_path(i) for i in indices.tolist()], dtype=np.str_)
        first_test = int(np.count_nonzero(self.parts != TEST))
        return np.array(
            [f"train/{i:05d}" if i < first_test else f"test/{i - first_test:05d}" for i in indices.tolist()],
            dtype=np.str_,
        )

    def check_unchanged(self, indices: NDArray[np.int64]) -> None:
        """Compare files with what they were when they were checked. Does nothing for arrays.

        Args:
            indices: (n,) rows of the manifest.

        Raises:
            DataError: a file is gone or has another size or time of change; it is named.
        """
        if self.is_array:
            return
        sizes = self.shard_sizes if self.shards else self.sizes
        for i in (np.unique(self.shard_rows[indices]) if self.shards else indices).tolist():
            path = os.path.join(str(self.root), self.shards[i] if self.shards else self.relative_path(i))
            try:
                now = os.stat(path)
            except OSError as error:
                raise DataError(
                    f"{path}: gone since split ({error.strerror}); restore it, name the folder that pictures "
                    "have moved to with --data-root, or run split --overwrite"
                ) from error
            if now.st_size != sizes[i] or now.st_mtime_ns != self.mtimes[i]:
                raise DataError(
                    f"{path}: changed since split; restore it, or run split --overwrite to check it again"
                )

    def save(self, path: Path) -> None:
        """Write everything but the root to one ``.npz`` file.

        Raises:
            StorageError: the file cannot be written.
        """
        columns = {name: getattr(self, name) for name in (*_COLUMNS, *_FURTHER_COLUMNS)}
        columns = {name: column for name, column in columns.items() if name in _COLUMNS or len(column)}
        head: dict[str, object] = {"version": MANIFEST_VERSION, "source": self.source}
        head |= {"class_names": list(self.class_names), "content": self.content}
        if self.shards:
            head["shards"] = list(self.shards)
        with replacing(path) as stream:
            np.savez(stream, head=np.frombuffer(json.dumps(head).encode(), dtype=np.uint8), **columns)


_LONGEST_HEADER = 1024  # bytes before a column's numbers; numpy writes 128
_COLUMNS = ("labels", "parts", "heights", "widths", "kinds")
_FURTHER_COLUMNS = (
    *("path_bytes", "path_offsets", "sizes", "mtimes"),
    *("id_bytes", "id_offsets", "shard_sizes", "shard_rows", "starts"),
)


def load_manifest(path: Path, root: Path | None) -> Manifest:
    """Read what `Manifest.save` wrote.

    Args:
        path: the ``.npz`` file.
        root: where the data lie now; None for the embedded sources.

    Raises:
        DataError: not there, damaged, of another version, or with a label that is none of its classes.
    """
    advice = "run mptctl split again with --overwrite"
    try:
        columns = _read_columns(path)
        head: dict[str, Any] = json.loads(columns.pop("head").tobytes())
        if odd := [name for name, column in columns.items() if column.dtype.kind not in "iu"]:
            raise DataError(f"{path}: its {odd[0]} are no integers; {advice}")
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
    """The arrays of an ``.npz`` file that a manifest has, each held against its checksum.

    `np.load` reads them in small pieces and copies these: 1.28 million rows take it half as long again.
    """
    columns: dict[str, NDArray[Any]] = {}
    with zipfile.ZipFile(path) as archive:
        for info in archive.infolist():
            # Numpy writes no bzip2, of which a kilobyte can hold gigabytes.
            if info.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
                raise ValueError("compressed in another way")
            name = info.filename.removesuffix(".npy")
            if name not in ("head", *_COLUMNS, *_FURTHER_COLUMNS):
                continue
            content = np.empty(info.file_size, dtype=np.uint8)
            with archive.open(info) as member:
                cast(io.BufferedIOBase, member).readinto(content.data)
            beginning = io.BytesIO(content[:_LONGEST_HEADER].tobytes())
            np.lib.format.read_magic(beginning)
            shape, _, dtype = np.lib.format.read_array_header_1_0(beginning)
            columns[name] = content[beginning.tell() :].view(dtype).reshape(shape)
    return columns


def _refuse_unknown_labels(manifest: Manifest, path: Path) -> None:
    """A label of -1 would be taken for the last class by whoever indexes with it."""
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
    """Digest of a source's array of pictures, of any shape, by which a later change is found."""
    return hashlib.blake2b(np.ascontiguousarray(pictures).data, digest_size=16).hexdigest()


def _packed_name(packed: NDArray[np.uint8], offsets: NDArray[np.int64], index: int) -> str:
    """The name at a place among those that `pack_paths` laid end to end."""
    return os.fsdecode(packed[offsets[index] : offsets[index + 1]].tobytes())


def pack_paths(paths: Sequence[str]) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """Lay paths end to end.

    Returns:
        (total,) bytes, and (n + 1,) offsets at which each path begins; the last is where the table ends.
    """
    encoded = [os.fsencode(path) for path in paths]
    offsets = np.zeros(len(encoded) + 1, dtype=np.int64)
    np.cumsum([len(path) for path in encoded], out=offsets[1:])
    return np.frombuffer(b"".join(encoded), dtype=np.uint8), offsets
