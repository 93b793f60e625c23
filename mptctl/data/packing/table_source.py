"""A table in CSV with a path or an address and a label a row, as `pack` reads it."""

from __future__ import annotations

import csv
import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from mptctl.data.listing.image_folder import BadPictures
from mptctl.data.packing.column_source import row_problems
from mptctl.data.packing.folder_source import read_file
from mptctl.data.packing.remote import Store, is_remote
from mptctl.data.packing.source import CHUNK, PART_WORDS, Original, PackSource, Reading, Stamp
from mptctl.errors import DataError, UsageError, did_you_mean, one_line, some


@dataclass(frozen=True, eq=False, kw_only=True)
class TableSource(PackSource):
    """Pictures that a table names.

    Attributes:
        table: its file.
        paths: of each row: a file, below the table's folder or anywhere, or an address.
    """

    table: Path
    paths: list[str]

    def where(self, row: int) -> str:
        """The number of the row, the header not counted, and the path."""
        return f"{self.table}: row {row + 1}: {self.paths[row]}"

    def stamp(self, row: int) -> Stamp | None:
        """Size and time of a file; of an address nothing is asked."""
        if is_remote(self.paths[row]):
            return None
        found = os.stat(self.table.parent / self.paths[row])
        return Stamp(found.st_size, found.st_mtime_ns)

    def readings(self, rows: Sequence[int]) -> Iterator[list[Reading]]:
        """The files, opened by the thread that reads them."""
        for start in range(0, len(rows), CHUNK):
            yield [Reading(row, partial(self._read, row)) for row in rows[start : start + CHUNK]]

    def _read(self, row: int) -> Original:
        path = self.paths[row]
        if not is_remote(path):
            return read_file(str(self.table.parent / path))
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
        UsageError: a named column is not there.
        DataError: no CSV, or no column of paths or labels; `BadPictures`: rows that cannot be used.
    """
    import pyarrow as pa

    try:
        content = path.read_bytes()
        header, *rows = csv.reader(content.decode("utf-8-sig").splitlines(), strict=True)
        if uneven := [i for i, row in enumerate(rows, 1) if len(row) != len(header)]:
            raise DataError(f"{path}: rows {some(uneven)} have not as many cells as the header; repair them")
    except (OSError, ValueError, csv.Error) as error:
        raise DataError(f"{path}: no readable CSV ({one_line(error)[:120]}); save it as UTF-8") from error
    columns = {name: [row[i] for row in rows] for i, name in enumerate(header)}
    for role, name in named.items():
        if name not in columns:
            raise UsageError(
                f"--column {role}={name}: {path} has {some(header, 8)}{did_you_mean(name, header)}"
            )
    roles = {role: named.get(role, role) for role in ("path", "label", "split", "id")}
    if missing := [role for role in ("path", "label") if roles[role] not in columns]:
        raise DataError(f"{path}: no column {missing[0]}; it has {some(header, 8)}; name it with --column")
    paths, labels = columns[roles["path"]], columns[roles["label"]]
    words = columns.get(roles["split"])
    class_names = tuple(sorted(set(labels)))
    position = {name: label for label, name in enumerate(class_names)}
    further = {name: column for name, column in columns.items() if name not in roles.values()}
    source = TableSource(
        class_names=class_names,
        ids=columns.get(roles["id"]) or [name.partition("://")[2] or name for name in paths],
        labels=[position[name] for name in labels],
        parts=[PART_WORDS.get(word.strip().lower(), "") for word in words] if words else [""] * len(paths),
        further=pa.table(further) if further else None,
        digest=hashlib.blake2b(content, digest_size=16).hexdigest(),
        table=path,
        paths=paths,
    )
    problems = [
        f"{source.where(row)}: {problem}"
        for row in range(len(paths))
        for problem, is_bad in (
            ("its path is empty", not paths[row].strip()),
            ("its label is empty", not labels[row].strip()),
            ("its part is not train, val or test", bool(words) and not source.parts[row]),
        )
        if is_bad
    ]
    if problems := problems + row_problems(labels, source.ids, source.where):
        raise BadPictures(problems, len(paths), "correct these rows")
    if not paths:
        raise DataError(f"{path}: no row in it; name a table of pictures")
    return source
