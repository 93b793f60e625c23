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
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from mptctl.data.listing.image_folder import BadPictures
from mptctl.data.packing.columns import PictureColumns, find_columns
from mptctl.data.packing.source import CHUNK, PART_WORDS, Original, PackSource, Reading
from mptctl.errors import DataError, some

if TYPE_CHECKING:
    import pyarrow as pa

_REPAIR = "correct these rows"


class Batch(NamedTuple):
    """Some rows of a file: the number of the first, and their columns."""

    start: int
    columns: pa.RecordBatch


class ColumnFile(ABC):
    """One file with a picture a row.

    Attributes:
        path: of the file.
        part: ``train``, ``val``, ``test``, or "" where neither its name nor its folder's is one.
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

    def __init__(self, columns: PictureColumns) -> None:
        self.columns = columns
        self.names: list[str] = []  # of the classes
        self.parts: list[str] = []
        self.files: list[str] = []  # file name or id of each, "" where it has none
        self.further: list[pa.RecordBatch] = []
        self.problems: list[str] = []

    def add(self, file: ColumnFile) -> None:
        """List the rows of one more file."""
        columns = self.columns
        wanted = [columns.label, *columns.further, *filter(None, (columns.split, columns.id))]
        if columns.has_paths and columns.id is None:
            wanted.append(f"{columns.image}.path")
        for batch in file.batches(wanted):
            rows = batch.columns
            where = [f"{file.path}: row {batch.start + i + 1}" for i in range(rows.num_rows)]
            self._add_labels(rows.column(columns.label).to_pylist(), where)
            self._add_parts(rows, file.part, where)
            self._add_files(rows, where)
            self.further.append(rows.select(columns.further))

    def _add_labels(self, labels: list[Any], where: list[str]) -> None:
        for label, place in zip(labels, where, strict=True):
            names = self.columns.class_names
            if label is None or label == "":
                self.problems.append(f"{place}: its label is empty")
            elif names and not (isinstance(label, int) and 0 <= label < len(names)):
                self.problems.append(f"{place}: label {label} is none of the {len(names)} classes")
            elif not isinstance(label, (int, str)):
                self.problems.append(f"{place}: label {label!r} is neither a whole number nor text")
            else:
                self.names.append(names[int(label)] if names else str(label))
                continue
            self.names.append("")

    def _add_parts(self, rows: pa.RecordBatch, part: str, where: list[str]) -> None:
        if self.columns.split is None:
            self.parts += [part] * len(where)
            return
        for word, place in zip(rows.column(self.columns.split).to_pylist(), where, strict=True):
            found = PART_WORDS.get(str(word).strip().lower(), "")
            if not found:
                self.problems.append(f"{place}: {self.columns.split} is {word!r}, not train, val or test")
            self.parts.append(found)

    def _add_files(self, rows: pa.RecordBatch, where: list[str]) -> None:
        if self.columns.id is not None:
            ids = rows.column(self.columns.id).to_pylist()
            self.problems += [
                f"{place}: its id is empty" for i, place in zip(ids, where, strict=True) if i in (None, "")
            ]
            self.files += ["" if value is None else str(value) for value in ids]
        elif self.columns.has_paths:
            paths = rows.column(self.columns.image).field("path").to_pylist()
            self.files += [PurePosixPath(path or "").name for path in paths]
        else:
            self.files += [""] * len(where)


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
        number = int(np.searchsorted(self.starts, row, side="right")) - 1
        return f"{self.files[number].path}: row {row - self.starts[number] + 1}"

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
        DataError: the files are not alike; `BadPictures`: rows that cannot be used, all of them named.
    """
    columns = find_columns(files[0].schema, files[0].features, named, str(files[0].path))
    _refuse_unlike(files, columns, named)
    listed, starts = _ListedRows(columns), [0]
    for file in files:
        listed.add(file)
        starts.append(len(listed.names))
    notes = [f"left out: column {name}, which holds bytes" for name in columns.left_out]
    ids = listed.files if columns.id else _name_rows(listed, notes)
    source = ColumnSource(
        class_names=_order_classes(listed.names, files[0].schema, columns, notes),
        ids=ids,
        labels=[],
        parts=listed.parts,
        further=_join(listed.further) if columns.further else None,
        notes=notes,
        digest=_digest(files),
        files=list(files),
        starts=starts,
        image=columns.image,
    )
    position = {name: label for label, name in enumerate(source.class_names)}
    source.labels.extend(position.get(name, -1) for name in listed.names)
    problems = listed.problems + row_problems(listed.names, ids, source.where)
    if problems:
        raise BadPictures(problems, len(ids), _REPAIR)
    if not ids:
        raise DataError(f"{some(file.path for file in files)}: no row in it; name files with pictures")
    return source


def row_problems(names: Sequence[str], ids: Sequence[str], where: Callable[[int], str]) -> list[str]:
    """Say which rows have an id that another one has, and which labels differ by case or blanks alone.

    Args:
        names: class of each row, "" where it has none.
        ids: of each row, "" where it has none.
        where: names a row.
    """
    problems = []
    first: dict[str, int] = {}
    for row, row_id in enumerate(ids):
        earlier = first.setdefault(row_id, row)
        if row_id and earlier != row:
            problems.append(f"{where(row)}: id {row_id} is that of {where(earlier)} too")
    spelled: dict[str, tuple[str, int]] = {}
    rows = {name: row for row, name in reversed(list(enumerate(names)))}  # the first of each class
    for name, row in sorted(rows.items(), key=lambda item: item[1]):
        earlier_name, earlier = spelled.setdefault("".join(name.split()).casefold(), (name, row))
        if earlier_name != name:
            problems.append(
                f"{where(row)}: label {name!r} differs from {earlier_name!r} of {where(earlier)} "
                "by case or blanks alone"
            )
    return problems


def part_of_file(path: Path) -> str:
    """The part that a name such as ``train-00000-of-00002`` says, else its folder; "" where neither does."""
    words = "".join(c if c.isalpha() else " " for c in path.stem.lower()).split()
    parts = {PART_WORDS[word] for word in words if word in PART_WORDS}
    return parts.pop() if len(parts) == 1 else PART_WORDS.get(path.parent.name.lower(), "")


def _refuse_unlike(files: Sequence[ColumnFile], columns: PictureColumns, named: Mapping[str, str]) -> None:
    for file in files[1:]:
        if find_columns(file.schema, file.features, named, str(file.path)) != columns:
            raise DataError(
                f"{file.path}: other columns or classes than {files[0].path}; pack files of one table at a "
                "time"
            )
    without = [str(file.path) for file in files if not file.part]
    if columns.split is None and 0 < len(without) < len(files):
        raise DataError(
            f"{some(without)}: neither name nor folder says whether it is train, val or test, as those of "
            "others do; rename it"
        )


def _order_classes(
    names: Sequence[str], schema: pa.Schema, columns: PictureColumns, notes: list[str]
) -> tuple[str, ...]:
    """Classes that have pictures, in the order of the metadata, of numbers, or of the alphabet."""
    import pyarrow as pa

    there = set(names) - {""}
    if columns.class_names:
        if empty := [name for name in columns.class_names if name not in there]:
            notes.append(
                f"left out: {len(empty)} of {len(columns.class_names)} classes, which have no picture: "
                f"{some(empty)}"
            )
        return tuple(name for name in columns.class_names if name in there)
    if pa.types.is_integer(schema.field(columns.label).type):
        return tuple(sorted(there, key=int))
    return tuple(sorted(there))


def _name_rows(listed: _ListedRows, notes: list[str]) -> list[str]:
    """``PART/CLASS/FILE`` of each row."""
    folders = [
        "/".join(filter(None, (part, name.replace("/", "_"))))
        for part, name in zip(listed.parts, listed.names, strict=True)
    ]
    ids = [f"{folder}/{file}" for folder, file in zip(folders, listed.files, strict=True)]
    if all(listed.files) and len(set(ids)) == len(ids):
        return ids
    if any(listed.files):
        notes.append("ids are row numbers: some file names are empty, or there twice in a class")
    counts: Counter[str] = Counter()
    ids = []
    for part, folder in zip(listed.parts, folders, strict=True):
        ids.append(f"{folder}/{counts[part]:08d}")
        counts[part] += 1
    return ids


def _join(batches: list[pa.RecordBatch]) -> pa.Table:
    import pyarrow as pa

    return pa.Table.from_batches(batches)


def _digest(files: Sequence[ColumnFile]) -> str:
    """Digest of the files' names, sizes and times of change."""
    facts = []
    for file in files:
        stat = file.path.stat()
        facts.append([file.path.name, stat.st_size, stat.st_mtime_ns])
    return hashlib.blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest()


def _read(pictures: pa.Array, i: int, file: Path) -> Original:
    """One picture of a batch: its bytes, or those of the file that it names."""
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
