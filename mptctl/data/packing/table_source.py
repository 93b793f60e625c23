"""A table with a path or an address and a label a row, as `pack` reads it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pyarrow as pa

from mptctl.data.listing.labelled_rows import names_beside
from mptctl.data.listing.table import Table, read_table
from mptctl.data.packing.folder_source import read_file
from mptctl.data.packing.remote import Store, is_remote
from mptctl.data.packing.source import CHUNK, Original, PackSource, Reading, Stamp, class_rows
from mptctl.errors import DataError


@dataclass(frozen=True, eq=False, kw_only=True)
class TableSource(PackSource):
    """Pictures that a table names.

    Attributes:
        table: its paths are files, below its folder or anywhere, or addresses.
        folder: that it lies in.
    """

    table: Table
    folder: Path

    def where(self, row: int) -> str:
        """The place of the row, and the path."""
        return f"{self.table.rows.where(row)}: {self.table.paths[row]}"

    def stamp(self, row: int) -> Stamp | None:
        """Size and time of a file; of an address nothing is asked."""
        if is_remote(self.table.paths[row]):
            return None
        found = os.stat(self.folder / self.table.paths[row])
        return Stamp(found.st_size, found.st_mtime_ns)

    def readings(self, rows: Sequence[int]) -> Iterator[list[Reading]]:
        """The files, opened by the thread that reads them."""
        for start in range(0, len(rows), CHUNK):
            yield [Reading(row, partial(self._read, row)) for row in rows[start : start + CHUNK]]

    def _read(self, row: int) -> Original:
        path = self.table.paths[row]
        if not is_remote(path):
            return read_file(str(self.folder / path))
        store = Store(path)
        (content,) = store.read(store.list_objects())
        if isinstance(content, str):
            raise DataError(content)
        return Original(content)


def list_table(path: Path, named: Mapping[str, str]) -> TableSource:
    """List the pictures of a table with the columns path and label, and perhaps split and id; none is read.

    Args:
        path: of the table.
        named: names of these columns, where they are other ones.

    Raises:
        UsageError, DataError: as of `read_table` and `class_rows`.
    """
    table = read_table(path, None, named)
    found = class_rows(table.rows, names_beside([path.parent]), str(path), "correct these rows")
    return TableSource(
        **found._asdict(),
        ids=table.rows.ids if table.has_ids else [name.partition("://")[2] or name for name in table.paths],
        further=pa.table(table.further) if table.further else None,
        digest=hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest(),
        table=table,
        folder=path.parent,
    )
