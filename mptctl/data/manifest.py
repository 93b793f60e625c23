"""The manifest: one row for each picture of a source, whatever its part; an Arrow table on disk."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mptctl.errors import DataError
from mptctl.names import Part

TRAIN, VAL, TEST, BAD = 0, 1, 2, 3
PART_CODES: dict[Part, int] = {"train": TRAIN, "val": VAL, "test": TEST}
# Words for the parts by their codes, in messages and lists of pictures.
PART_NAMES = {TRAIN: "train", VAL: "val", TEST: "test", BAD: "out"}

# Kinds of pictures. STANDARD: every decoder gives the pixels of Pillow. NONSTANDARD: decoders differ (CMYK,
# palettes, transparency), and Pillow's pixels count. ARRAY: a row of the source's array, not a file.
STANDARD, NONSTANDARD, ARRAY = 0, 1, 2

# EXIF orientations (Exif 2.32, 4.6.4 A): of a picture that is shown as stored, and the first of those that
# lie on their side, whose height and width change places.
UPRIGHT, FIRST_ON_SIDE = 1, 5

# Part of every fingerprint.
_FORM = 1
TEXT = pa.large_string()
# Columns of the table on disk: the attribute of `Manifest`, and its type. An array has the first five alone.
_COLUMNS = {
    "label": ("labels", pa.int32()),
    "part": ("parts", pa.uint8()),
    "height": ("heights", pa.int32()),
    "width": ("widths", pa.int32()),
    "kind": ("kinds", pa.uint8()),
    "path": ("paths", TEXT),
    "id": ("own_ids", TEXT),
    "size": ("sizes", pa.int64()),
    "mtime": ("mtimes", pa.int64()),
    "shard": ("shard_rows", pa.int32()),
    "start": ("starts", pa.int64()),
    "orientation": ("orientations", pa.uint8()),
}


_NONE: NDArray[Any] = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class Manifest:
    """The M pictures of a source: rows of the training part first, rows of the test part last.

    Attributes:
        source: name of the source, one of `mptctl.names.Source`.
        root: data folder; None for the embedded sources.
        class_names: names of the classes, in the source's own order.
        labels: (M,) int32 index into ``class_names``.
        parts: (M,) uint8 TRAIN, VAL, TEST, or BAD for a picture that is kept out.
        heights, widths: (M,) int32, in pixels, as stored.
        kinds: (M,) uint8 STANDARD, NONSTANDARD or ARRAY.
        paths: (M,) `TEXT` paths below ``root``, or names within shards; None for a source that is one array.
        own_ids: (M,) `TEXT` ids; None where the paths or names are the ids.
        sizes: (M,) int64 bytes of each picture when it was checked; empty for an array.
        mtimes: int64 nanoseconds of the last change of each file, (M,), or of each shard, (S,), when it was
            checked; empty for an array.
        content: digest of the source's array; "" for files.
        shards: paths below ``root`` of the S tar files with the pictures; () where each picture is a file.
        shard_sizes: (S,) int64 bytes of each shard when it was checked.
        shard_rows: (M,) int32 index into ``shards``.
        starts: (M,) int64 offset of each picture within its shard.
        orientations: (M,) uint8 EXIF orientation, 1 to 8; empty where all pictures are upright.
    """

    source: str
    root: Path | None
    class_names: tuple[str, ...]
    labels: NDArray[np.int32]
    parts: NDArray[np.uint8]
    heights: NDArray[np.int32]
    widths: NDArray[np.int32]
    kinds: NDArray[np.uint8]
    paths: pa.LargeStringArray | None = None
    own_ids: pa.LargeStringArray | None = None
    sizes: NDArray[np.int64] = field(default_factory=lambda: _NONE)
    mtimes: NDArray[np.int64] = field(default_factory=lambda: _NONE)
    content: str = ""
    shards: tuple[str, ...] = ()
    shard_sizes: NDArray[np.int64] = field(default_factory=lambda: _NONE)
    shard_rows: NDArray[np.int32] = field(default_factory=lambda: _NONE)
    starts: NDArray[np.int64] = field(default_factory=lambda: _NONE)
    orientations: NDArray[np.uint8] = field(default_factory=lambda: np.empty(0, dtype=np.uint8))

    def __len__(self) -> int:
        return len(self.labels)

    @property
    def is_array(self) -> bool:
        """True for a source that is one array in memory; else `read` returns the encoded bytes of a row."""
        return self.paths is None

    @cached_property
    def fingerprint(self) -> str:
        """Digest of the rows without folder and times of change, so it stays when the data are copied."""
        digest = hashlib.blake2b(digest_size=16)
        head = [_FORM, self.source, list(self.class_names), self.content, len(self)]
        digest.update(json.dumps(head).encode())
        columns = (self.labels, self.parts, self.kinds, *_buffers(self.paths), self.sizes)
        for column in (*columns, *_buffers(self.own_ids)):
            digest.update(np.ascontiguousarray(column).data)
        return digest.hexdigest()

    @cached_property
    def digest(self) -> str:
        """Digest of all columns, also those that `fingerprint` leaves out; it names caches of pictures."""
        digest = hashlib.blake2b(self.fingerprint.encode(), digest_size=16)
        digest.update("".join(self.shards).encode())
        of_files = (self.heights, self.widths, self.mtimes)
        of_shards = (self.shard_sizes, self.shard_rows, self.starts)
        for column in of_files + of_shards:
            digest.update(np.ascontiguousarray(column).data)
        return digest.hexdigest()

    @property
    def is_turned(self) -> NDArray[np.bool_]:
        """(M,) True for pictures that their EXIF orientation turns or mirrors."""
        return self.orientations > UPRIGHT if len(self.orientations) else np.zeros(len(self), dtype=np.bool_)

    def orientation(self, index: int) -> int:
        """Return the EXIF orientation of one picture, 1 to 8."""
        return int(self.orientations[index]) if len(self.orientations) else UPRIGHT

    def relative_path(self, index: int) -> str:
        """Return the path of one picture below the root, with ``/`` in it, or its name in a shard."""
        if self.paths is None:
            raise TypeError(f"{self.source}: is one array, whose pictures lie in no files")
        return str(self.paths[index])

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
        texts = self.paths if self.own_ids is None else self.own_ids
        if texts is not None:
            return np.array([str(texts[row]) for row in indices.tolist()], dtype=np.str_)
        first_test = int(np.count_nonzero(self.parts != TEST))
        return np.array(
            [
                f"train/{row:05d}" if row < first_test else f"test/{row - first_test:05d}"
                for row in indices.tolist()
            ],
            dtype=np.str_,
        )

    def take(self, rows: NDArray[np.int64]) -> Manifest:
        """Return the manifest of some rows, in their order; a row may come several times."""
        chosen = {}
        for name, values in self._columns_of_pictures().items():
            attribute, kind = _COLUMNS[name]
            chosen[attribute] = values.take(pa.array(rows)) if kind == TEXT else values[rows]
        return replace(self, **chosen)

    def _columns_of_pictures(self) -> dict[str, Any]:
        """Return the columns that have a value for each picture, by their names on disk."""
        values = {name: getattr(self, attribute) for name, (attribute, _) in _COLUMNS.items()}
        if self.shards:
            del values["mtime"]  # has a value for each shard
        return {name: each for name, each in values.items() if each is not None and len(each) == len(self)}

    def check_unchanged(self, indices: NDArray[np.int64]) -> None:
        """Compare the files, or shards, of rows with size and time of change when they were checked.

        Nothing is compared for an array.

        Args:
            indices: (n,) rows of the manifest.

        Raises:
            DataError: a file is gone, or its size or time of change differs.
        """
        if self.paths is None:
            return
        names = self.shards or self.paths
        sizes = self.shard_sizes if self.shards else self.sizes
        files = np.unique(self.shard_rows[indices]) if self.shards else indices
        for file in files.tolist():
            path = os.path.join(str(self.root), str(names[file]))
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

    def serialise(self, about: dict[str, Any]) -> bytes:
        """Return everything but the root as an Arrow file, which `parse_manifest` reads.

        Args:
            about: what else the file has to say; values of JSON.
        """
        columns = {}
        for name, values in self._columns_of_pictures().items():
            _, kind = _COLUMNS[name]
            columns[name] = values if kind == TEXT else _to_arrow(values, kind)
        head = {name: getattr(self, name) for name in ("source", "class_names", "content", "shards")}
        head |= {"fingerprint": self.fingerprint, "digest": self.digest, "about": about}
        if self.shards:
            head |= {"shard_sizes": self.shard_sizes.tolist(), "mtimes": self.mtimes.tolist()}
        schema = pa.schema([(name, _COLUMNS[name][1]) for name in columns], {"mptctl": json.dumps(head)})
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as file:
            file.write_batch(pa.RecordBatch.from_arrays([*columns.values()], schema=schema))
        content: bytes = sink.getvalue().to_pybytes()
        return content


def parse_manifest(content: bytes, root: Path | None) -> tuple[Manifest, dict[str, Any]]:
    """Read a manifest out of the bytes of `Manifest.serialise`, and what else they say.

    Args:
        content: the bytes, whose digest has been compared.
        root: folder of the data now; None for the embedded sources.

    Raises:
        ValueError, KeyError, TypeError: the bytes are of another form.
        DataError: a row has a label without a class, or an unknown part; it does not name the file.
    """
    batch = pa.ipc.open_file(pa.py_buffer(content)).get_batch(0)
    head = json.loads(batch.schema.metadata[b"mptctl"])
    columns: dict[str, Any] = {}
    for field_of, column in zip(batch.schema, batch.columns, strict=True):
        attribute, kind = _COLUMNS[field_of.name]
        if column.type != kind or column.null_count:
            raise ValueError(f"its column {field_of.name} has another type")
        columns[attribute] = column if kind == TEXT else _to_numpy(column)
    if head["shards"]:
        columns |= {name: np.array(head[name], dtype=np.int64) for name in ("shard_sizes", "mtimes")}
    manifest = Manifest(
        source=head["source"],
        root=root,
        class_names=tuple(head["class_names"]),
        content=head["content"],
        shards=tuple(head["shards"]),
        **columns,
    )
    _refuse_unknown_labels(manifest)
    # Not computed again, which for ImageNet takes longer than all else here.
    vars(manifest).update(fingerprint=head["fingerprint"], digest=head["digest"])
    return manifest, head["about"]


def _refuse_unknown_labels(manifest: Manifest) -> None:
    """Raise DataError for a label without a class (-1 would be the last one) or an unknown part."""
    classes = len(manifest.class_names)
    rows = np.flatnonzero((manifest.labels < 0) | (manifest.labels >= classes) | (manifest.parts > BAD))
    if len(rows):
        row = int(rows[0])
        raise DataError(
            f"{len(rows)} rows have a label or a part that there is not, row {row} first "
            f"(label {manifest.labels[row]} of {classes} classes, part {manifest.parts[row]})"
        )


# `pyarrow.array` and `to_numpy` import pandas where it is installed, which takes half a second.
def _to_arrow(values: NDArray[Any], kind: pa.DataType) -> pa.Array:
    """Return a column of numbers as an Arrow array, without a copy where its type is the same."""
    numbers = np.ascontiguousarray(values, dtype=kind.to_pandas_dtype())
    return pa.Array.from_buffers(kind, len(numbers), [None, pa.py_buffer(numbers)])


def _to_numpy(column: pa.Array) -> NDArray[Any]:
    """Return an Arrow array of numbers without nulls as a NumPy array that shares its memory."""
    dtype = np.dtype(column.type.to_pandas_dtype())
    return np.frombuffer(column.buffers()[1], dtype, len(column), column.offset * dtype.itemsize)


def content_digest(pictures: NDArray[np.uint8]) -> str:
    """Compute the digest of an array of pictures of any shape, by which a later change is found."""
    return hashlib.blake2b(np.ascontiguousarray(pictures).data, digest_size=16).hexdigest()


def _buffers(texts: pa.LargeStringArray | None) -> Iterator[NDArray[Any]]:
    """Yield the bytes of all texts, and the (n + 1,) int64 offsets of each among them; nothing for None."""
    if texts is None:
        return
    _, offsets, data = texts.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    yield np.frombuffer(data or b"", dtype=np.uint8)[bounds[0] : bounds[-1]]
    yield bounds - bounds[0]
