"""Parquet files, and Arrow files that `datasets.save_to_disk` wrote, with pictures inside."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from mptctl.data.listing.recognise import STATE_NAME
from mptctl.data.packing.columns import read_features
from mptctl.data.packing.source import CHUNK
from mptctl.errors import DataError, one_line

# The file that describes the columns of a folder that `datasets` saved.
INFO_NAME = "dataset_info.json"


class RowBatch(NamedTuple):
    """Some rows of a file: the number of the first row, from 0, and columns of these rows."""

    start: int
    columns: pa.RecordBatch


class ParquetFile:
    """A Parquet file with a picture in each row, as Hugging Face and data frames write it.

    Args:
        path: path of the file.
        part: a word of `PART_WORDS`, or "" where no file has one.

    Attributes:
        schema: columns of the file.
        features: Hugging Face's description of the columns; empty without one.

    Raises:
        DataError: the file is no Parquet file, or damaged.
    """

    def __init__(self, path: Path, part: str) -> None:
        self.path, self.part = path, part
        try:
            # Mapped, since else the whole column of a row group is read, and a data frame is one row group.
            self._file = pq.ParquetFile(path, memory_map=True)
        except (OSError, ValueError) as error:  # pyarrow's errors are both
            raise DataError(f"{path}: no readable Parquet file ({one_line(error)[:120]})") from error
        self.schema = self._file.schema_arrow
        self.features = read_features(self.schema)

    def batches(self, columns: list[str], rows: Collection[int] | None = None) -> Iterator[RowBatch]:
        """Yield columns of the file, some rows at a time; row groups without a wanted row are not read.

        Args:
            columns: names of columns; a field of a struct is named like ``image.path``.
            rows: wanted rows, from 0; None: all rows.

        Raises:
            DataError: the file is damaged.
        """
        end = 0
        for group in range(self._file.num_row_groups):
            start, end = end, end + self._file.metadata.row_group(group).num_rows
            if rows is not None and not any(row in rows for row in range(start, end)):
                continue
            try:
                for batch in self._file.iter_batches(CHUNK, row_groups=[group], columns=columns):
                    yield RowBatch(start, batch)
                    start += batch.num_rows
            except (OSError, ValueError) as error:
                raise DataError(
                    f"{self.path}: damaged at row {start + 1} ({one_line(error)[:120]}); fetch or write it "
                    "again"
                ) from error


class ArrowFile:
    """An Arrow file with a picture in each row, mapped into memory.

    Args:
        path, part: as of `ParquetFile`, as are the attributes.
        features: the folder's description of its columns; empty without one.

    Raises:
        DataError: the file is no Arrow file, or damaged.
    """

    def __init__(self, path: Path, part: str, features: Mapping[str, Any]) -> None:
        self.path, self.part = path, part
        try:
            # The list reads all headers, so that a file that is cut off is found here.
            self._batches = list(pa.ipc.open_stream(pa.memory_map(str(path))))
            self.schema = pa.ipc.open_stream(pa.memory_map(str(path))).schema
        except (OSError, ValueError) as error:  # pyarrow's errors are both
            raise DataError(f"{path}: no whole Arrow file ({one_line(error)[:120]})") from error
        self.features = dict(features) or read_features(self.schema)

    def batches(self, columns: list[str], rows: Collection[int] | None = None) -> Iterator[RowBatch]:
        """Yield all batches; for a column such as ``image.path``, they have the whole struct ``image``."""
        start = 0
        wanted = {column.split(".")[0] for column in columns}
        names = [name for name in self.schema.names if name in wanted]
        for batch in self._batches:
            yield RowBatch(start, batch.select(names))
            start += batch.num_rows


def open_arrow_files(folder: Path, part: str) -> list[ArrowFile]:
    """Open the Arrow files of one folder, in order; arguments as of `ParquetFile`.

    Raises:
        DataError: a file is missing or damaged, or the rows are those of another set in another order.
    """
    state = read_json(folder / STATE_NAME)
    if state.get("_indices_files") or state.get("_indices_data_files"):
        raise DataError(
            f"{folder}: its rows are those of another set in another order; save it with datasets 2 or newer"
        )
    info = folder / INFO_NAME
    features = read_json(info).get("features") or {} if info.is_file() else {}
    names = [entry["filename"] for entry in state.get("_data_files", [])]
    if not names:
        raise DataError(f"{folder / STATE_NAME}: names no file; save the set again")
    return [ArrowFile(folder / name, part, features) for name in names]


def read_json(path: Path) -> dict[str, Any]:
    """Read a JSON object; DataError if the file cannot be read or holds none."""
    try:
        content = json.loads(path.read_bytes())
    except OSError as error:
        raise DataError(f"{path}: cannot be read ({error.strerror}); save the set again") from error
    except ValueError as error:
        raise DataError(f"{path}: no JSON ({one_line(error)[:120]}); save the set again") from error
    if not isinstance(content, dict):
        raise DataError(f"{path}: no JSON object; save the set again")
    return content
