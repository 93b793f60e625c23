"""The workspace of a comparison: a DuckDB connection with a memory limit, and a folder for the rest."""

from __future__ import annotations

import atexit
import os
import re
import resource
import tempfile
from collections.abc import Generator, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import cached_property
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from mptctl.errors import StorageError, UsageError, first_line
from mptctl.evaluation.reading.columns import NAMED, number_array, text_array
from mptctl.files import scratch_folder
from mptctl.files.control_groups import free_group_memory, read_system_text

if TYPE_CHECKING:
    import duckdb

MOST = 2 * 10**9  # largest default of the memory limit, in bytes
LEAST = 64 * 10**6  # bytes; with less DuckDB cannot join at all
# Rows of a result that are in memory at once.
BATCH = 2**17
UNITS = {"": 1, "b": 1, "kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}


class Workspace:
    """A DuckDB connection and a folder for what exceeds its memory. Its user must close it.

    Args:
        memory_limit: bytes that tables and joins may take; default: `default_limit`. What exceeds them is
            written to the folder.
    """

    def __init__(self, memory_limit: int | None = None) -> None:
        self.memory_limit = memory_limit or default_limit()
        self._scratch = ExitStack()
        self._numbers = count()
        self._stale: list[str] = []

    @cached_property
    def connection(self) -> duckdb.DuckDBPyConnection:
        """The connection, which is opened, and its folder made, when it is first used."""
        import duckdb  # takes longer to import than many files take to be read

        folder = self._scratch.enter_context(scratch_folder())
        settings: dict[str, Any] = {
            "memory_limit": f"{self.memory_limit}B",
            "temp_directory": str(folder),
            "autoinstall_known_extensions": False,
        }
        connection = duckdb.connect(":memory:", config=settings)
        # In a notebook DuckDB would draw a bar; where it cannot, setting it raises an error.
        if connection.execute("SELECT current_setting('enable_progress_bar')").fetchall() == [(True,)]:
            connection.execute("SET enable_progress_bar = false")
        return connection

    @cached_property
    def unlimited(self) -> duckdb.DuckDBPyConnection:
        """A connection to another database, which is empty and has no memory limit, for looks at files."""
        import duckdb

        return duckdb.connect(":memory:", config={"autoinstall_known_extensions": False})

    def name(self) -> str:
        """Return a new name, which no other table of this workspace has."""
        return f"table_{next(self._numbers)}"

    def drop_later(self, statement: str) -> None:
        """Execute a DROP statement before the next query.

        For finalizers, which may run in the middle of a query.
        """
        self._stale.append(statement)

    def register(self, columns: Mapping[str, NDArray[Any] | list[str]]) -> str:
        """Make a view of columns of integers or text; return its name, so that the caller can drop it."""
        arrays = [
            number_array(values)
            if isinstance(values, np.ndarray) and values.dtype.kind == "i"
            else text_array(values)
            for values in columns.values()
        ]
        return self.register_table(pa.Table.from_arrays(arrays, names=[*columns]))

    def register_table(self, table: pa.Table) -> str:
        """Make a view of a table in memory; return its name, so that the caller can drop it."""
        name = self.name()
        with interrupts_kept():
            self.connection.register(name, table)
        return name

    def append(self, name: str, batch: pa.Table, chosen: str = "*") -> None:
        """Append columns of a batch, in SQL, to a table, which the first batch makes; errors as `fetch`."""
        view = self.register_table(batch)
        self.fetch(f"CREATE TABLE IF NOT EXISTS {name} AS SELECT {chosen} FROM {view} LIMIT 0")
        self.fetch(f"INSERT INTO {name} SELECT {chosen} FROM {view}")
        with interrupts_kept():
            self.connection.unregister(view)

    def fetch(self, query: str) -> list[tuple[Any, ...]]:
        """Execute a query and return the rows of its result.

        Raises:
            StorageError: the query needs more memory than the limit, and the folder's disk is full.
            duckdb.Error: a file that the query reads cannot be read.
        """
        with self._query_errors():
            return self._tidied_connection().execute(query).fetchall()

    def count_ids(self, query: str) -> tuple[int, list[str]]:
        """Return how many ids a query finds, and the first few as text; errors as `fetch`."""
        rows = self.fetch(f"SELECT count(*) OVER (), id::VARCHAR FROM ({query}) ORDER BY 2 LIMIT {NAMED}")
        return (rows[0][0] if rows else 0), [row[1] for row in rows]

    def table(self, query: str) -> pa.Table:
        """Execute a query, as `fetch` does, and return its result as a table in memory."""
        with self._query_errors():
            return self._tidied_connection().sql(query).to_arrow_table()

    def batches(self, query: str) -> Generator[pa.RecordBatch]:
        """Execute a query, as `fetch` does; yield its result in batches. Close it before the next query."""
        with self._query_errors(), self._tidied_connection().sql(query).to_arrow_reader(BATCH) as reader:
            yield from reader

    def _tidied_connection(self) -> duckdb.DuckDBPyConnection:
        """Execute the statements of `drop_later`, and return the connection."""
        while self._stale:
            self.connection.execute(self._stale.pop())
        return self.connection

    def close(self) -> None:
        """Close the connections that were opened, and remove the folder."""
        try:
            # They are cached properties, which are in `__dict__` only after their first use.
            for name in {"connection", "unlimited"} & self.__dict__.keys():
                self.__dict__.pop(name).close()
        finally:
            self._scratch.close()

    @contextmanager
    def _query_errors(self) -> Iterator[None]:
        """Turn errors of too little memory or disk, raised in the block, into StorageError.

        Raises:
            KeyboardInterrupt: a signal's handler raised it during the query, and DuckDB another error.
        """
        import duckdb

        try:
            with interrupts_kept():
                yield
        except (duckdb.OutOfMemoryException, MemoryError, OSError) as error:  # in a stream all are OSError
            raise StorageError(
                f"pairing needs more than the {shown_size(self.memory_limit)} of --memory-limit and the disk "
                f"at {tempfile.gettempdir()} have room for ({first_line(error)[:200]}); raise "
                "--memory-limit, or set TMPDIR to a folder on a larger disk"
            ) from error


@contextmanager
def interrupts_kept() -> Iterator[None]:
    """Raise KeyboardInterrupt where a signal ended a query; DuckDB raises an error of its own instead."""
    try:
        yield
    except RuntimeError as error:
        if str(error) == "Query interrupted":
            raise KeyboardInterrupt from error
        raise


# Of each thread its own: a connection of DuckDB takes one query at a time.
_current: ContextVar[Workspace | None] = ContextVar("workspace", default=None)


@contextmanager
def workspace(memory_limit: int | None = None) -> Iterator[Workspace]:
    """Open a workspace, which `current` returns in this thread; close it when the block ends.

    Args:
        memory_limit: bytes; default: `default_limit`.
    """
    opened = Workspace(memory_limit)
    before = _current.set(opened)
    try:
        yield opened
    finally:
        _current.reset(before)
        opened.close()


def current() -> Workspace:
    """Return this thread's innermost open workspace, or else open one until the process ends."""
    work = _current.get()
    if work is None:
        work = Workspace()
        atexit.register(work.close)
        _current.set(work)
    return work


def default_limit() -> int:
    """The default memory limit in bytes: the lesser of 2 GB and half the free memory, but at least 64 MB."""
    return max(LEAST, min(MOST, free_memory() // 2))


def parse_memory_limit(text: str | None) -> int | None:
    """Parse the value of --memory-limit, such as ``500MB`` or ``2 GB``, to bytes; None where it is not given.

    Args:
        text: a number, with or without a unit; the unit may be in small letters.

    Raises:
        UsageError: it is no size, or less than `LEAST`.
    """
    if text is None:
        return None
    parts = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([kmgt]?b)?", text.strip().lower())
    number = float(parts[1]) * UNITS[parts[2] or ""] if parts else 0
    if not LEAST <= number < 10**18:
        raise UsageError(
            f"--memory-limit {text[:60]!r}: is no size of {shown_size(LEAST)} or more; write one such as 2GB"
        )
    return int(number)


def shown_size(number: int) -> str:
    """Write a number of bytes for a message, in GB or MB."""
    return f"{number / 1e9:.1f} GB" if number >= 10**9 else f"{number / 1e6:.0f} MB"


def free_memory() -> int:
    """Bytes that this process may still take: the least that machine, control group and own limit leave.

    Where the system does not say what is available, half of the machine's memory counts as free.
    """
    page = os.sysconf("SC_PAGE_SIZE")
    available = os.sysconf("SC_PHYS_PAGES") * page // 2
    for line in read_system_text(Path("/proc/meminfo")).splitlines():
        if line.startswith("MemAvailable:"):
            available = int(line.split()[1]) * 1024
    free = [available]
    in_group = free_group_memory()
    if in_group is not None:
        free.append(in_group)
    own_limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    statm = read_system_text(Path("/proc/self/statm"))  # its first number: pages of the address space
    if own_limit != resource.RLIM_INFINITY and statm:
        free.append(max(0, own_limit - int(statm.split()[0]) * page))
    return min(free)
