"""Parquet files with pictures inside, as Hugging Face and data frames write them, as a source of `pack`."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq

from mptctl.data.listing.patterns import find_part_words, list_files, root_folder_of
from mptctl.data.packing.column_source import ColumnFile, ColumnSource, RowBatch, list_pictures_in_tables
from mptctl.data.packing.columns import read_features
from mptctl.data.packing.source import CHUNK
from mptctl.errors import DataError, one_line


class ParquetFile(ColumnFile):
    """One Parquet file with pictures inside.

    Args:
        path: path of the file.
        part: a word of `PART_WORDS`, or "" where no file has one.

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
        """Yield batches as `ColumnFile.batches` says; row groups without a wanted row are not read."""
        start = 0
        for group in range(self._file.num_row_groups):
            end = start + self._file.metadata.row_group(group).num_rows
            if rows is None or any(row in rows for row in range(start, end)):
                yield from self._read_group(group, start, columns)
            start = end

    def _read_group(self, group: int, start: int, columns: list[str]) -> Iterator[RowBatch]:
        """Yield the batches of one row group, whose first row is ``start``; DataError if it is damaged."""
        try:
            for batch in self._file.iter_batches(CHUNK, row_groups=[group], columns=columns):
                yield RowBatch(start, batch)
                start += batch.num_rows
        except (OSError, ValueError) as error:
            raise DataError(
                f"{self.path}: damaged at row {start + 1} ({one_line(error)[:120]}); fetch or write it again"
            ) from error


def list_parquet(place: str, named: Mapping[str, str]) -> ColumnSource:
    """List the pictures inside Parquet files; no picture is read.

    Args:
        place: the files, as of `list_files`.
        named: as of `list_pictures_in_tables`.

    Raises:
        UsageError, DataError: as of `list_files`, `find_part_words` and `list_pictures_in_tables`.
    """
    paths = list_files(place, ".parquet")
    names = [os.path.relpath(path, root_folder_of(place)) for path in paths]
    parts = find_part_words(names, place)
    return list_pictures_in_tables(
        [ParquetFile(path, part) for path, part in zip(paths, parts, strict=True)], named
    )
