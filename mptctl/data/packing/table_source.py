"""Tables of paths or addresses as a source of `pack`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from mptctl.data.listing.labelled_rows import read_class_names
from mptctl.data.listing.table import Table, read_table
from mptctl.data.packing.folder_source import read_file
from mptctl.data.packing.remote import Store, is_remote
from mptctl.data.packing.source import OneByOneSource, Original, Stamp, classify_rows
from mptctl.errors import DataError


@dataclass(frozen=True, eq=False, kw_only=True)
class TableSource(OneByOneSource):
    """Pictures that a table names.

    Attributes:
        table: the table; its paths are absolute, relative to its folder, or addresses.
        folder: folder of the table.
    """

    table: Table
    folder: Path

    def where(self, row: int) -> str:
        """Return the place of the row in the table, and the path in it."""
        return f"{self.table.rows.where(row)}: {self.table.paths[row]}"

    def stamp(self, row: int) -> Stamp | None:
        """Return size and last change of a file; None for an address. OSError if the file is gone."""
        if is_remote(self.table.paths[row]):
            return None
        stat = os.stat(self.folder / self.table.paths[row])
        return Stamp(stat.st_size, stat.st_mtime_ns)

    def read(self, row: int) -> Original:
        """Read the file, or fetch the address, of one row; DataError if it cannot be read."""
        path = self.table.paths[row]
        if not is_remote(path):
            return read_file(str(self.folder / path))
        store = Store(path)
        (content,) = store.read(store.list_objects())
        if isinstance(content, str):
            raise DataError(content)
        return Original(content)


def list_table(path: Path, named: Mapping[str, str]) -> TableSource:
    """List the pictures of a table; no picture is read.

    Args:
        path: the table, with columns ``path`` and ``label``, and perhaps ``split`` and ``id``.
        named: name of a column by role, where its name is not the role.

    Raises:
        UsageError, DataError: as of `read_table` and `classify_rows`.
    """
    table = read_table(path, None, named)
    classified = classify_rows(table.rows, read_class_names([path.parent]), str(path), "correct these rows")
    return TableSource(
        **classified._asdict(),
        ids=table.rows.ids if table.has_ids else [name.partition("://")[2] or name for name in table.paths],
        further=pa.table(table.further) if table.further else None,
        digest=hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest(),
        table=table,
        folder=path.parent,
    )
