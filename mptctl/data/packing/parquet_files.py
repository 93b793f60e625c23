"""Parquet files with pictures inside, as Hugging Face and data frames write them."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path

import pyarrow.parquet as pq

from mptctl.data.listing.patterns import find_files, parts_in_names, root_of
from mptctl.data.packing.column_source import Batch, ColumnFile, ColumnSource, list_columns
from mptctl.data.packing.columns import read_features
from mptctl.data.packing.source import CHUNK
from mptctl.errors import DataError, one_line


class ParquetFile(ColumnFile):
    """One Parquet file.

    Args:
        path: of the file.
        part: a word of `PART_WORDS`, or "".

    Raises:
        DataError: it is none, or damaged.
    """

    def __init__(self, path: Path, part: str) -> None:
        self.path, self.part = path, part
        try:
            # Mapped: else a column of a group of rows is read whole, and a data frame's is one group.
            self._file = pq.ParquetFile(path, memory_map=True)
        except (OSError, ValueError) as error:  # pyarrow's errors are both
            raise DataError(f"{path}: no readable Parquet file ({one_line(error)[:120]})") from error
        self.schema = self._file.schema_arrow
        self.features = read_features(self.schema)

    def batches(self, columns: list[str], rows: Collection[int] | None = None) -> Iterator[Batch]:
        """As `ColumnFile.batches`; groups of rows without any that is wanted are not read."""
        start = 0
        for group in range(self._file.num_row_groups):
            end = start + self._file.metadata.row_group(group).num_rows
            if rows is None or any(row in rows for row in range(start, end)):
                yield from self._read_group(group, start, columns)
            start = end

    def _read_group(self, group: int, start: int, columns: list[str]) -> Iterator[Batch]:
        try:
            for batch in self._file.iter_batches(CHUNK, row_groups=[group], columns=columns):
                yield Batch(start, batch)
                start += batch.num_rows
        except (OSError, ValueError) as error:
            raise DataError(
                f"{self.path}: damaged at row {start + 1} ({one_line(error)[:120]}); fetch or write it again"
            ) from error


def list_parquet(place: str, named: Mapping[str, str]) -> ColumnSource:
    """List the pictures inside Parquet files; errors as `find_files`, `parts_in_names` and `list_columns`.

    Args:
        place: as of `find_files`.
        named: as of `list_columns`.
    """
    paths = find_files(place, ".parquet")
    names = [os.path.relpath(path, root_of(place)) for path in paths]
    parts = parts_in_names(names, place)
    return list_columns([ParquetFile(*each) for each in zip(paths, parts, strict=True)], named)
