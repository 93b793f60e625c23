"""Tables with pictures inside, in Parquet or Arrow files, as a source of `pack`."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa

from mptctl.data.listing.image_folder import PART_WORDS
from mptctl.data.listing.labelled_rows import LabelledRows, classify_rows, labels_as_text
from mptctl.data.listing.patterns import find_part_words, list_files, root_folder_of
from mptctl.data.listing.recognise import PARTS_NAME
from mptctl.data.packing.column_files import SAVE_AGAIN, ColumnFile, open_arrow_files, open_parquet_file
from mptctl.data.packing.columns import PictureColumns, find_columns
from mptctl.data.packing.source import (
    Original,
    PackSource,
    Reading,
    classed_fields,
    in_chunks,
    refuse_bad_rows,
)
from mptctl.errors import DataError, one_line, some
from mptctl.files.text_file import read_json_object


def list_parquet(place: str, named: Mapping[str, str]) -> PackSource:
    """List the pictures inside Parquet files; no picture is read.

    Args:
        place: the files; see `list_files`.
        named: see `list_pictures_in_tables`.

    Raises:
        UsageError, DataError: see `list_files`, `find_part_words` and `list_pictures_in_tables`.
    """
    paths = list_files(place, ".parquet")
    names = [os.path.relpath(path, root_folder_of(place)) for path in paths]
    parts = find_part_words(names, place)
    files = [open_parquet_file(path, part) for path, part in zip(paths, parts, strict=True)]
    return list_pictures_in_tables(files, named)


def list_arrow(place: str, named: Mapping[str, str]) -> PackSource:
    """List the pictures of a folder that `datasets` saved, one data set or one for each part; none is read.

    Args:
        place: the folder.
        named: see `list_pictures_in_tables`.

    Raises:
        UsageError, DataError: see `list_pictures_in_tables`.
        DataError: a file that describes the folder is missing or damaged, or names an unknown part.
    """
    folder = Path(place)
    if not (folder / PARTS_NAME).is_file():
        return list_pictures_in_tables(open_arrow_files(folder, ""), named)
    parts = read_json_object(folder / PARTS_NAME, SAVE_AGAIN).get("splits", [])
    unknown = [name for name in parts if name.lower() not in PART_WORDS]
    if unknown or not parts:
        raise DataError(
            f"{folder / PARTS_NAME}: parts {', '.join(unknown) or 'missing'}: expected train, validation and "
            "test; pack the folder of each alone"
        )
    files = [file for name in parts for file in open_arrow_files(folder / name, name.lower())]
    return list_pictures_in_tables(files, named)


def list_pictures_in_tables(files: Sequence[ColumnFile], named: Mapping[str, str]) -> PackSource:
    """List the pictures inside the files of one table, with labels, parts and ids; no picture is read.

    Ids come from a column of ids. Without one they are those of `_make_ids`.

    Args:
        files: the files, in order.
        named: column names that ``--column`` gives, by `Role`.

    Raises:
        UsageError: ``named`` names a column that does not exist.
        DataError: the files have different columns, or as in `find_columns` and `classify_rows`.
        BadPictures: rows have no usable label, part or id.
    """
    columns = find_columns(files[0].schema, files[0].features, named, str(files[0].path))
    table, starts = _read_columns(files, columns, named)

    def where(row: int) -> str:
        file = int(np.searchsorted(starts, row, side="right")) - 1
        return f"{files[file].path}: row {row - starts[file] + 1}"

    listed = _label_rows(table, columns, where)
    what = some(str(file.path) for file in files)
    names, rows = classify_rows(listed, columns.class_names or None, what, {"path": listed.ids}, {})
    lines = [f"{where(row)}: {problem}" for row, problem in sorted(listed.problems.items())]
    refuse_bad_rows(lines, len(table), "correct these rows")
    fields = classed_fields(names, rows)
    fields["notes"] += [f"left out: column {name}, which holds bytes" for name in columns.left_out]
    return PackSource(
        **fields,
        ids=listed.ids if columns.id else _make_ids(fields, table["\0name"].to_pylist()),
        where=where,
        readings=partial(_read_pictures, files, starts, columns.image),
        further=table.select(columns.further) if columns.further else None,
        digest=_digest_files(files),
    )


def _read_pictures(
    files: Sequence[ColumnFile], starts: Sequence[int], image: str, rows: Sequence[int]
) -> Iterator[list[Reading]]:
    """Yield the readings of some rows, file by file; a reading copies the bytes out of the file.

    Args:
        files: the files, in the order of the rows.
        starts: (len(files) + 1,) first row of each file in the source, and the number of all rows.
        image: name of the column of pictures.
        rows: see `PackSource.readings`.
    """
    wanted = set(rows)
    for file, start, end in zip(files, starts, starts[1:], strict=False):
        if wanted.isdisjoint(range(start, end)):
            continue
        first = start  # row of the batch's first picture
        for batch in file.batches([image]):
            pictures = batch.column(image)
            yield from in_chunks(
                Reading(row, partial(_read_picture, pictures, row - first, file.path))
                for row in range(first, first + len(pictures))
                if row in wanted
            )
            first += len(pictures)


def _read_columns(
    files: Sequence[ColumnFile], columns: PictureColumns, named: Mapping[str, str]
) -> tuple[pa.Table, list[int]]:
    """Read all columns but those of pictures, and the first row of each file, then the number of all rows.

    Added are the columns ``\\0part``, and ``\\0name``: the name of the file that a picture once had, or "".

    Raises:
        DataError: a file has other columns or classes than the first one, or is damaged.
    """
    roles = filter(None, (columns.label, columns.split, columns.id))
    wanted = [*dict.fromkeys((*roles, *columns.further))]
    if columns.has_paths and columns.id is None:
        wanted.append(f"{columns.image}.path")
    starts, tables = [0], []
    for file in files:
        if find_columns(file.schema, file.features, named, str(file.path)) != columns:
            raise DataError(
                f"{file.path}: other columns or classes than {files[0].path}; pack files of one table at a "
                "time"
            )
        batches = list(file.batches(wanted))
        starts.append(starts[-1] + sum(batch.num_rows for batch in batches))
        if batches:
            table = pa.Table.from_batches(batches).replace_schema_metadata(None)
            names = [""] * len(table)
            if columns.image in table.column_names:  # the struct of pictures, with no field but the path
                paths = pa.chunked_array([chunk.field("path") for chunk in table[columns.image].chunks])
                names = [PurePosixPath(path or "").name for path in paths.to_pylist()]
                table = table.drop_columns(columns.image)
            for name, texts in (("\0name", names), ("\0part", [file.part] * len(table))):
                table = table.append_column(name, pa.array(texts, pa.string()))
            tables.append(table)
    if not tables:
        raise DataError(f"{files[0].path}: holds no picture; name a source that has some")
    try:
        return pa.concat_tables(tables, promote_options="permissive"), starts
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise DataError(
            f"{files[0].path}: its columns are of other types in other files ({one_line(error)[:120]})"
        ) from error


def _label_rows(table: pa.Table, columns: PictureColumns, where: Any) -> LabelledRows:
    """Return labels, parts and ids as text; a row whose label is neither a whole number nor text is bad."""
    labels, problems = labels_as_text(table[columns.label].to_pylist())
    words = table[columns.split or "\0part"].to_pylist()
    ids = range(len(labels)) if columns.id is None else table[columns.id].to_pylist()
    return LabelledRows(
        ids=["" if value is None else str(value) for value in ids],
        labels=labels,
        parts=[str(word).strip().lower() for word in words] if columns.split or any(words) else [],
        where=where,
        problems=problems,
    )


def _make_ids(fields: Mapping[str, Any], files: Sequence[str]) -> list[str]:
    """Make the id of each row: ``PART/CLASS/FILE``, or ``PART/CLASS/NUMBER``.

    The second form is that of all rows where some have no file name, or two rows would get one id. If there
    are file names at all, a note is added to ``notes`` then.

    Args:
        fields: ``class_names``, ``labels``, ``parts`` and ``notes`` of a `PackSource`.
        files: file name of each row; "" for none.
    """
    names = [name.replace("/", "_") for name in fields["class_names"]]
    folders = [
        "/".join(filter(None, (part, names[label])))
        for part, label in zip(fields["parts"], fields["labels"], strict=True)
    ]
    by_file = [f"{folder}/{file}" for folder, file in zip(folders, files, strict=True)]
    if all(files) and len(set(by_file)) == len(by_file):
        return by_file
    if any(files):
        fields["notes"].append("ids are row numbers: some file names are empty, or there twice in a class")
    counts: Counter[str] = Counter()
    by_number = []
    for part, folder in zip(fields["parts"], folders, strict=True):
        by_number.append(f"{folder}/{counts[part]:08d}")
        counts[part] += 1
    return by_number


def _digest_files(files: Sequence[ColumnFile]) -> str:
    """Compute a digest of the files' names, sizes and times of change."""
    stats = [file.path.stat() for file in files]
    facts = [
        [file.path.name, stat.st_size, stat.st_mtime_ns] for file, stat in zip(files, stats, strict=True)
    ]
    return hashlib.blake2b(json.dumps(facts).encode(), digest_size=16).hexdigest()


def _read_picture(pictures: pa.Array, index: int, file: Path) -> Original:
    """Read a picture of a batch: its bytes, or those of the file that it names.

    Args:
        pictures: the column of pictures.
        index: number of the picture in the column.
        file: the file of the batch; paths are relative to its folder.

    Raises:
        DataError: there are no bytes, or the named file cannot be read.
    """
    value = pictures[index].as_py()
    content, path = (value.get("bytes"), value.get("path")) if isinstance(value, dict) else (value, None)
    if content:
        return Original(content)
    if not path:
        raise DataError("empty")
    try:
        return Original((file.parent / path).read_bytes())
    except OSError as error:
        raise DataError(f"holds no bytes, and {path} cannot be read ({error.strerror})") from error
