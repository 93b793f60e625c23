"""The workspace of a comparison: a DuckDB, its limit of memory, and a folder for what exceeds it."""

from __future__ import annotations

import atexit
import os
import re
import resource
import tempfile
import threading
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import StorageError, UsageError, first_line
from mptctl.files import scratch_folder
from mptctl.files.control_groups import free_group_memory, system_text
from mptctl.names import Progress

if TYPE_CHECKING:
    import duckdb
    import pyarrow as pa

MOST = 2 * 10**9  # bytes that are taken without being asked for
LEAST = 64 * 10**6  # bytes below which DuckDB cannot join at all
# Rows from which on a query is worth a bar: below, it is done before one could be read.
WATCHED = 1_000_000
# Values that are Python's own text at one time: they take ten times what Arrow needs for them.
BLOCK = 65_536
UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}


class Workspace:
    """A DuckDB connection. Close it: its folder is removed then, whatever happened before.

    Args:
        memory_limit: bytes that tables and joins may take; the rest goes to the folder. Default:
            `default_limit`.
        progress: told how a long query goes.
    """

    def __init__(self, memory_limit: int | None = None, progress: Progress | None = None) -> None:
        self.memory_limit = memory_limit or default_limit()
        self.progress = progress
        self._scratch = ExitStack()
        self._numbers = count()
        self._stale: list[str] = []

    @cached_property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """Made when it is first needed: DuckDB takes longer to import than many files to read."""
        import duckdb

        folder = self._scratch.enter_context(scratch_folder())
        settings: dict[str, Any] = {
            "memory_limit": f"{self.memory_limit}B",
            "temp_directory": str(folder),
            "autoinstall_known_extensions": False,
        }
        connection = duckdb.connect(":memory:", config=settings)
        # The bar is ours, and only where somebody watches: DuckDB's own goes to standard output.
        watched = self.progress is not None
        shown = connection.execute("SELECT current_setting('enable_progress_bar')").fetchall()
        # A notebook without ipywidgets shows none, and refuses to be told so.
        if shown != [(False,)] or watched:
            bar = str(watched).lower()
            connection.execute(f"SET enable_progress_bar_print = false; SET enable_progress_bar = {bar}")
        return connection

    def name(self) -> str:
        """A name that no other table of this workspace has."""
        return f"table_{next(self._numbers)}"

    def drop_later(self, statement: str) -> None:
        """Make room before the next query; for finalizers, which may run in the middle of one."""
        self._stale.append(statement)

    def register(self, columns: Mapping[str, NDArray[Any] | list[str]]) -> str:
        """SQL: a relation of these columns of integers and text; drop the view when it is done."""
        import pyarrow as pa

        name = self.name()
        arrays = [
            number_array(values)
            if isinstance(values, np.ndarray) and values.dtype.kind == "i"
            else text_array(values)
            for values in columns.values()
        ]
        self.connection.register(name, pa.Table.from_arrays(arrays, names=[*columns]))
        return name

    def fetch(self, query: str, what: str = "", rows: int = 0) -> list[tuple[Any, ...]]:
        """The rows of a query's result.

        Args:
            query: SQL.
            what: what it does, for whoever watches. rows: how many rows it reads.

        Raises:
            StorageError: more memory is needed than the limit allows, or the folder is full.
            duckdb.Error: what the query reads cannot be read.
        """
        with self._storage_errors(), self._watched(what, rows):
            return self._tidied_connection().execute(query).fetchall()

    def arrays(self, query: str, what: str = "", rows: int = 0) -> dict[str, Any]:
        """The columns of a query's result as arrays of numpy; see `fetch`."""
        with self._storage_errors(), self._watched(what, rows):
            return dict(self._tidied_connection().execute(query).fetchnumpy())

    def _tidied_connection(self) -> duckdb.DuckDBPyConnection:
        """The connection, once what nobody needs any more is dropped from it."""
        while self._stale:
            self.connection.execute(self._stale.pop())
        return self.connection

    def close(self) -> None:
        """End the connection and remove the folder."""
        try:
            # A cached property: there only if it was used.
            connection = self.__dict__.pop("connection", None)
            if connection is not None:
                connection.close()
        finally:
            self._scratch.close()

    @contextmanager
    def _storage_errors(self) -> Iterator[None]:
        import duckdb

        try:
            yield
        except (duckdb.OutOfMemoryException, MemoryError) as error:
            raise StorageError(
                f"pairing needs more than the {shown_size(self.memory_limit)} of --memory-limit and the disk "
                f"at {tempfile.gettempdir()} have room for ({first_line(error)[:200]}); raise "
                "--memory-limit, or set TMPDIR to a folder on a larger disk"
            ) from error

    @contextmanager
    def _watched(self, what: str, rows: int) -> Iterator[None]:
        """Say how far a query is while the block runs, where it reads many rows."""
        if self.progress is None or rows < WATCHED:
            yield
            return
        tell, connection, ended = self.progress, self.connection, threading.Event()

        def watch() -> None:
            while not ended.wait(0.2):
                tell(what, int(rows * max(connection.query_progress(), 0) / 100), rows)

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            yield
            tell(what, rows, rows)
        finally:
            ended.set()
            watcher.join()


_open: list[Workspace] = []


@contextmanager
def workspace(memory_limit: int | None = None, progress: Progress | None = None) -> Iterator[Workspace]:
    """A workspace that `current` gives until the block ends, which removes its folder whatever happened."""
    made = Workspace(memory_limit, progress)
    _open.append(made)
    try:
        yield made
    finally:
        _open.remove(made)
        made.close()


def current() -> Workspace:
    """The workspace of the block that runs, or one that ends with the process."""
    if not _open:
        made = Workspace()
        atexit.register(made.close)
        _open.append(made)
    return _open[-1]


def default_limit() -> int:
    """Bytes: 2 GB or half of what is free, whichever is less."""
    return max(LEAST, min(MOST, free_memory() // 2))


def parse_size(text: str, flag: str) -> int:
    """Bytes of a size such as ``500MB`` or ``2 GB``.

    Raises:
        UsageError: no size, or one with which nothing can be joined.
    """
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?b)?", text.strip().lower())
    number = float(found[1]) * UNITS[found[2] or ""] if found else 0
    if not LEAST <= number < 10**18:
        raise UsageError(
            f"{flag} {text[:60]!r}: is no size of {shown_size(LEAST)} or more; write one such as 2GB"
        )
    return int(number)


def shown_size(number: int) -> str:
    """Bytes as a message may hold them."""
    return f"{number / 1e9:.1f} GB" if number >= 10**9 else f"{number / 1e6:.0f} MB"


def free_memory() -> int:
    """Bytes that this process may still take: of the machine, its control group, its own limit."""
    pages = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    found = [pages // 2]
    for line in system_text(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            found = [int(line.split()[1]) * 1024]
    in_group = free_group_memory()
    if in_group is not None:
        found.append(in_group)
    own = resource.getrlimit(resource.RLIMIT_AS)[0]
    taken = system_text(Path("/proc/self/statm"))
    if own != resource.RLIM_INFINITY and taken:
        found.append(max(0, own - int(taken.split()[0]) * os.sysconf("SC_PAGE_SIZE")))
    return min(found)


def text_array(values: NDArray[Any] | list[str]) -> pa.StringArray:
    """(N,) text as an Arrow array, without `pa.array`, which imports pandas where that is: half of a start.

    Raises:
        UnicodeEncodeError: text that is no Unicode, such as half of a surrogate pair.
    """
    from pyarrow import lib

    builder = lib.StringBuilder()
    for start in range(0, len(values), BLOCK):
        block = values[start : start + BLOCK]
        builder.append_values(block if isinstance(block, list) else block.tolist())
    return builder.finish()


def number_array(values: NDArray[np.int64]) -> pa.Int64Array:
    """(N,) integers as an Arrow array that shares their memory."""
    import pyarrow as pa

    return pa.Array.from_buffers(pa.int64(), len(values), [None, pa.py_buffer(np.ascontiguousarray(values))])
