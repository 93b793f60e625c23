"""Tables with pictures inside, in Parquet or Arrow files, as a source of `pack`."""

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
from mptctl.data.packing.source import CHUNK, ClassedRows, Original, PackSource, Reading, classify_rows
from mptctl.errors import DataError, some


class RowBatch(NamedTuple):
    """Some rows of a file: the number of the first row, from 0, and columns of these rows."""

    start: int
    columns: pa.RecordBatch


class ColumnFile(ABC):
    """One file with a picture in each row.

    Attributes:
        path: path of the file.
        part: a word of `PART_WORDS`, or "" where no file has one.
        schema: columns of the file.
        features: Hugging Face's description of the columns; empty without one.
    """

    path: Path
    part: str
    schema: pa.Schema
    features: Mapping[str, Any]

    @abstractmethod
    def batches(self, columns: list[str], rows: Collection[int] | None = None) -> Iterator[RowBatch]:
        """Yield columns of the file, some rows at a time.

        Args:
            columns: names of columns; a field of a struct is named like ``image.path``.
            rows: wanted rows, from 0; batches without any of them may be left out. None: all rows.

        Raises:
            DataError: the file is damaged.
        """


class _RowListing:
    """Collects label, part, id and further columns of each row of all files.

    Args:
        columns: names of the columns.
        where: takes a row and returns its place, for messages.

    Attributes:
        rows: labels, parts, ids, and problems.
        files: name of the file that each picture once had; "" where it has none. Empty with a column of ids.
        further: further columns, batch after batch.
    """

    def __init__(self, columns: PictureColumns, where: Callable[[int], str]) -> None:
        self.columns = columns
        self.rows = LabelledRows([], [], [], where)
        self.files: list[str] = []
        self.further: list[pa.RecordBatch] = []

    def add(self, file: ColumnFile) -> None:
        """Add the rows of one more file."""
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
        """Add labels as text; a row whose label is neither a whole number nor text gets a problem."""
        for label in labels:
            if not isinstance(label, int | str | None):
                row = len(self.rows.labels)
                self.rows.problems[row] = f"label {label!r} is neither a whole number nor text"
            self.rows.labels.append("" if label is None else str(label))

    def _add_names(self, rows: pa.RecordBatch) -> None:
        """Add ids of a column; without such a column, add row numbers as ids, and the names of files."""
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
        files: the files, in the order of the rows.
        starts: (len(files) + 1,) first row of each file in the source, and the number of all rows.
        image: name of the column of pictures.
    """

    files: list[ColumnFile]
    starts: list[int]
    image: str

    def where(self, row: int) -> str:
        """Return the file, and the number of the row in it, from 1."""
        return _where(self.files, self.starts, row)

    def readings(self, rows: Sequence[int]) -> Iterator[list[Reading]]:
        """Yield the readings of some rows, file by file; a reading copies the bytes out of the file."""
        wanted = set(rows)
        for file, start, end in zip(self.files, self.starts, self.starts[1:], strict=False):
            wanted_here = {row - start for row in wanted.intersection(range(start, end))}
            if not wanted_here:
                continue
            for batch in file.batches([self.image], wanted_here):
                pictures = batch.columns.column(self.image)
                places = [place for place in range(len(pictures)) if batch.start + place in wanted_here]
                readings = [
                    Reading(start + batch.start + place, partial(_read_picture, pictures, place, file.path))
                    for place in places
                ]
                for first in range(0, len(readings), CHUNK):
                    yield readings[first : first + CHUNK]


def list_pictures_in_tables(files: Sequence[ColumnFile], named: Mapping[str, str]) -> ColumnSource:
    """List the pictures inside the files of one table, with labels, parts and ids; no picture is read.

    Ids come from a column of ids. Without one they are those of `_make_ids`.

    Args:
        files: the files, in order.
        named: column names that ``--column`` gives, by `Role`.

    Raises:
        UsageError: ``named`` names a column that does not exist.
        DataError: the files have different columns, or as of `find_columns` and `classify_rows`.
    """
    columns = find_columns(files[0].schema, files[0].features, named, str(files[0].path))
    _refuse_other_columns(files, columns, named)
    starts = [0]
    listed = _RowListing(columns, lambda row: _where(files, starts, row))
    for file in files:
        listed.add(file)
        starts.append(len(listed.rows.ids))
    what = some(str(file.path) for file in files)
    classified = classify_rows(listed.rows, columns.class_names or None, what, "correct these rows")
    classified.notes.extend(f"left out: column {name}, which holds bytes" for name in columns.left_out)
    return ColumnSource(
        **classified._asdict(),
        ids=listed.rows.ids if columns.id else _make_ids(classified, listed.files),
        further=pa.Table.from_batches(listed.further) if columns.further else None,
        digest=_digest_files(files),
        files=list(files),
        starts=starts,
        image=columns.image,
    )


def _refuse_other_columns(
    files: Sequence[ColumnFile], columns: PictureColumns, named: Mapping[str, str]
) -> None:
    """Raise DataError where a file has other columns or classes than the first file's ``columns``."""
    for file in files[1:]:
        if find_columns(file.schema, file.features, named, str(file.path)) != columns:
            raise DataError(
                f"{file.path}: other columns or classes than {files[0].path}; pack files of one table at a "
                "time"
            )


def _where(files: Sequence[ColumnFile], starts: Sequence[int], row: int) -> str:
    """Return the file of a row of the source, and the number of the row in that file, from 1."""
    file = int(np.searchsorted(starts, row, side="right")) - 1
    return f"{files[file].path}: row {row - starts[file] + 1}"


def _make_ids(rows: ClassedRows, files: Sequence[str]) -> list[str]:
    """Make the id of each row: ``PART/CLASS/FILE``, or ``PART/CLASS/NUMBER``.

    The second form is that of all rows where some have no file name, or two rows would get one id. If there
    are file names at all, a note is added to ``rows.notes`` then.

    Args:
        rows: classes and parts.
        files: file name of each row; "" for none.
    """
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


def _digest_files(files: Sequence[ColumnFile]) -> str:
    """Compute a digest of the files' names, sizes and times of change."""
    stats = [file.path.stat() for file in files]
    facts = [
        [file.path.name, stat.st_size, stat.st_mtime_ns] for file, stat in zip(files, stats, strict=True)
    ]
    return hashlib.blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest()


def _read_picture(pictures: pa.Array, place: int, file: Path) -> Original:
    """Read a picture of a batch: its bytes, or those of the file that it names.

    Args:
        pictures: the column of pictures.
        place: place of the picture in the column.
        file: the file of the batch; paths are relative to its folder.

    Raises:
        DataError: there are no bytes, or the named file cannot be read.
    """
    value = pictures[place].as_py()
    content, path = (value.get("bytes"), value.get("path")) if isinstance(value, dict) else (value, None)
    if content:
        return Original(content)
    if not path:
        raise DataError("empty")
    try:
        return Original((file.parent / path).read_bytes())
    except OSError as error:
        raise DataError(f"holds no bytes, and {path} cannot be read ({error.strerror})") from error
