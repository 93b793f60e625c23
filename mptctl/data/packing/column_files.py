"""Parquet files, and Arrow files that `datasets.save_to_disk` wrote, with pictures inside."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from mptctl.data.listing.recognise import STATE_NAME
from mptctl.data.packing.columns import read_features
from mptctl.data.packing.source import CHUNK
from mptctl.errors import DataError, one_line
from mptctl.files.text_file import read_json_object

# The file that describes the columns of a folder that `datasets` saved.
INFO_NAME = "dataset_info.json"
SAVE_AGAIN = "save the set again"


class ColumnFile(NamedTuple):
    """A file with a picture in each row.

    Attributes:
        path: path of the file.
        part: a word of `PART_WORDS`, or "" where no file has one.
        schema: columns of the file.
        features: Hugging Face's description of the columns; empty without one.
        batches: takes names of columns, and yields all rows of these columns, some at a time. Raises
            DataError where the file is damaged.
    """

    path: Path
    part: str
    schema: pa.Schema
    features: Mapping[str, Any]
    batches: Callable[[list[str]], Iterator[pa.RecordBatch]]


def open_parquet_file(path: Path, part: str) -> ColumnFile:
    """Open a Parquet file, as Hugging Face and data frames write it.

    Raises:
        DataError: the file is no Parquet file, or damaged.
    """
    try:
        # Mapped, since else the whole column of a row group is read, and a data frame is one row group.
        file = pq.ParquetFile(path, memory_map=True)
    except (OSError, ValueError) as error:  # pyarrow's errors are both
        raise DataError(f"{path}: no readable Parquet file ({one_line(error)[:120]})") from error

    def batches(columns: list[str]) -> Iterator[pa.RecordBatch]:
        done = 0
        try:
            for batch in file.iter_batches(CHUNK, columns=columns):
                yield batch
                done += batch.num_rows
        except (OSError, ValueError) as error:
            raise DataError(
                f"{path}: damaged at row {done + 1} ({one_line(error)[:120]}); fetch or write it again"
            ) from error

    return ColumnFile(path, part, file.schema_arrow, read_features(file.schema_arrow), batches)


def _open_arrow_file(path: Path, part: str, features: Mapping[str, Any]) -> ColumnFile:
    """Open an Arrow file, mapped into memory; ``features`` are the folder's, empty without one.

    For a column such as ``image.path``, its batches have the whole struct ``image``.

    Raises:
        DataError: the file is no Arrow file, or damaged.
    """
    try:
        with pa.ipc.open_stream(pa.memory_map(str(path))) as stream:
            schema: pa.Schema = stream.schema
            whole = list(stream)  # reads all headers, so that a file that is cut off is found here
    except (OSError, ValueError) as error:  # pyarrow's errors are both
        raise DataError(f"{path}: no whole Arrow file ({one_line(error)[:120]})") from error

    def batches(columns: list[str]) -> Iterator[pa.RecordBatch]:
        wanted = {column.split(".")[0] for column in columns}
        return (batch.select([name for name in schema.names if name in wanted]) for batch in whole)

    return ColumnFile(path, part, schema, dict(features) or read_features(schema), batches)


def open_arrow_files(folder: Path, part: str) -> list[ColumnFile]:
    """Open the Arrow files of one folder, in order; arguments: see `open_parquet_file`.

    Raises:
        DataError: a file is missing or damaged, or the rows are those of another set in another order.
    """
    state = read_json_object(folder / STATE_NAME, SAVE_AGAIN)
    if state.get("_indices_files") or state.get("_indices_data_files"):
        raise DataError(
            f"{folder}: its rows are those of another set in another order; save it with datasets 2 or newer"
        )
    info = folder / INFO_NAME
    features = read_json_object(info, SAVE_AGAIN).get("features") or {} if info.is_file() else {}
    names = [entry["filename"] for entry in state.get("_data_files", [])]
    if not names:
        raise DataError(f"{folder / STATE_NAME}: names no file; {SAVE_AGAIN}")
    return [_open_arrow_file(folder / name, part, features) for name in names]
