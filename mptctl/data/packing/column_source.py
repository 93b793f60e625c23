"""Tables with pictures inside, of Parquet or Arrow: a picture a row, its label, and further columns."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mptctl.data.listing.labelled_rows import LabelledRows
from mptctl.data.packing.columns import PictureColumns, find_columns
from mptctl.data.packing.source import CHUNK, ClassedRows, Original, PackSource, Reading, class_rows
from mptctl.errors import DataError, some


class Batch(NamedTuple):
    """Some rows of a file: the number of the first, and their columns."""

    start: int
    columns: pa.RecordBatch


class ColumnFile(ABC):
    """One file with a picture a row.

    Attributes:
        path: of the file.
        part: a word of `PART_WORDS`, or "" where no file has one.
        schema, features: its columns, and Hugging Face's description of them.
    """

    path: Path
    part: str
    schema: pa.Schema
    features: Mapping[str, Any]

    @abstractmethod
    def batches(self, columns: list[str], rows: Collection[int] | None = None) -> Iterator[Batch]:
        """Some columns, `CHUNK` rows a time or more; ``image.path`` is a column too.

        Args:
            columns: by name.
            rows: batches without any of these can be left out; None for all rows.

        Raises:
            DataError: the file is damaged.
        """


class _ListedRows:
    """The rows of all files: what is said of each picture, and what is wrong with it."""

    def __init__(self, columns: PictureColumns, where: Callable[[int], str]) -> None:
        self.columns = columns
        self.rows = LabelledRows([], [], [], where)
        self.files: list[str] = []  # file name of each, "" where it has none
        self.further: list[pa.RecordBatch] = []

    def add(self, file: ColumnFile) -> None:
        """List the rows of one more file."""
        columns = self.columns
        wanted = [columns.label, *columns.further, *filter(None, (columns.split, columns.id))]
        if columns.has_paths and columns.id is None:
            wanted.append(f"{columns.image}.path")
        for batch in file.batches(wanted):
            rows = batch.columns
            self._add_labels(rows.column(columns.label).to_pylist())
            if columns.split is not None:
                words = rows.column(columns.split).to_pylist()
                self.rows.parts += [str(word).strip().lower() for word in words]
            elif file.part:
                self.rows.parts += [file.part] * rows.num_rows
            self._add_names(rows)
            self.further.append(rows.select(columns.further))

    def _add_labels(self, labels: list[Any]) -> None:
        for label in labels:
            if not isinstance(label, int | str | None):
                row = len(self.rows.labels)
                self.rows.problems[row] = f"label {label!r} is neither a whole number nor text"
            self.rows.labels.append("" if label is None else str(label))

    def _add_names(self, rows: pa.RecordBatch) -> None:
        """Ids, and names of files; without a column of ids they are the rows' numbers."""
        if self.columns.id is not None:
            ids = rows.column(self.columns.id).to_pylist()
            self.rows.ids += ["" if value is None else str(value) for value in ids]
            return
        self.rows.ids += map(str, range(len(self.rows.ids), len(self.rows.labels)))
        paths = rows.column(self.columns.image).field("path").to_pylist() if self.columns.has_paths else []
        self.files += [PurePosixPath(path or "").name for path in paths] or [""] * rows.num_rows


@dataclass(frozen=True, eq=False, kw_only=True)
class ColumnSource(PackSource):
    """Pictures inside tables.

    Attributes:
        files: in the order of the rows.
        starts: (len(files) + 1,) row of the source at which each begins; the last is where the rows end.
        image: the column of the pictures.
    """

    files: list[ColumnFile]
    starts: list[int]
    image: str

    def where(self, row: int) -> str:
        """The file and the number of the row in it, from 1."""
        return _where(self.files, self.starts, row)

    def readings(self, rows: Sequence[int]) -> Iterator[list[Reading]]:
        """The rows' pictures, file by file; the thread that reads one copies its bytes out of the file."""
        wanted = set(rows)
        for file, start, end in zip(self.files, self.starts, self.starts[1:], strict=False):
            here = {row - start for row in wanted.intersection(range(start, end))}
            if not here:
                continue
            for batch in file.batches([self.image], here):
                pictures = batch.columns.column(self.image)
                places = [i for i in range(len(pictures)) if batch.start + i in here]
                readings = [
                    Reading(start + batch.start + i, partial(_read, pictures, i, file.path)) for i in places
                ]
                for first in range(0, len(readings), CHUNK):
                    yield readings[first : first + CHUNK]


def list_columns(files: Sequence[ColumnFile], named: Mapping[str, str]) -> ColumnSource:
    """List the pictures inside tables, and check what is said of them; no picture is read.

    An id is the ``id`` column's; else ``PART/CLASS/FILE`` by the name that the picture had as a file; else,
    where the rows have no such names or some of them twice, its number in the part.

    Args:
        files: of one table, in order.
        named: columns that a person named, by `Role`.

    Raises:
        UsageError: a named column is not there.
        DataError: the files are not alike, or as of `class_rows`.
    """
    columns = find_columns(files[0].schema, files[0].features, named, str(files[0].path))
    _refuse_unlike(files, columns, named)
    starts = [0]
    listed = _ListedRows(columns, lambda row: _where(files, starts, row))
    for file in files:
        listed.add(file)
        starts.append(len(listed.rows.ids))
    what = some(str(file.path) for file in files)
    found = class_rows(listed.rows, columns.class_names or None, what, "correct these rows")
    found.notes.extend(f"left out: column {name}, which holds bytes" for name in columns.left_out)
    return ColumnSource(
        **found._asdict(),
        ids=listed.rows.ids if columns.id else _name_rows(found, listed.files),
        further=_join(listed.further) if columns.further else None,
        digest=_digest(files),
        files=list(files),
        starts=starts,
        image=columns.image,
    )


def _refuse_unlike(files: Sequence[ColumnFile], columns: PictureColumns, named: Mapping[str, str]) -> None:
    for file in files[1:]:
        if find_columns(file.schema, file.features, named, str(file.path)) != columns:
            raise DataError(
                f"{file.path}: other columns or classes than {files[0].path}; pack files of one table at a "
                "time"
            )


def _where(files: Sequence[ColumnFile], starts: Sequence[int], row: int) -> str:
    number = int(np.searchsorted(starts, row, side="right")) - 1
    return f"{files[number].path}: row {row - starts[number] + 1}"


def _name_rows(rows: ClassedRows, files: Sequence[str]) -> list[str]:
    """``PART/CLASS/FILE`` of each row."""
    names = [name.replace("/", "_") for name in rows.class_names]
    folders = [
        "/".join(filter(None, (part, names[label])))
        for part, label in zip(rows.parts, rows.labels, strict=True)
    ]
    ids = [f"{folder}/{file}" for folder, file in zip(folders, files, strict=True)]
    if all(files) and len(set(ids)) == len(ids):
        return ids
    if any(files):
        rows.notes.append("ids are row numbers: some file names are empty, or there twice in a class")
    counts: Counter[str] = Counter()
    ids = []
    for part, folder in zip(rows.parts, folders, strict=True):
        ids.append(f"{folder}/{counts[part]:08d}")
        counts[part] += 1
    return ids


def _join(batches: list[pa.RecordBatch]) -> pa.Table:
    return pa.Table.from_batches(batches)


def _digest(files: Sequence[ColumnFile]) -> str:
    """Digest of the files' names, sizes and times of change."""
    facts = []
    for file in files:
        stat = file.path.stat()
        facts.append([file.path.name, stat.st_size, stat.st_mtime_ns])
    return hashlib.blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest()


def _read(pictures: pa.Array, i: int, file: Path) -> Original:
    """Read a picture of a batch: its bytes, or those of the file that it names."""
    value = pictures[i].as_py()
    content, path = (value.get("bytes"), value.get("path")) if isinstance(value, dict) else (value, None)
    if content:
        return Original(content)
    if not path:
        raise DataError("empty")
    try:
        return Original((file.parent / path).read_bytes())
    except OSError as error:
        raise DataError(f"holds no bytes, and {path} cannot be read ({error.strerror})") from error
