"""Which predictions files can be read, by suffix. Light: the command line names the suffixes in its help."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray

    # The arrays that a file has, by the names of `columns.COLUMNS`.
    Columns = dict[str, NDArray[Any]]

# Each reader is imported when a file of its kind is read: pyarrow is slow to import, and most files are archives.


def _npz(path: Path) -> Columns:
    from mptctl.evaluation.npz_file import read_npz

    return read_npz(path)


def _csv(path: Path) -> Columns:
    from mptctl.evaluation.csv_file import read_csv

    return read_csv(path)


def _parquet(path: Path) -> Columns:
    from mptctl.evaluation.parquet_file import read_parquet

    return read_parquet(path)


READERS: dict[str, Callable[[Path], Columns]] = {".npz": _npz, ".csv": _csv, ".parquet": _parquet}
SUFFIXES = ", ".join(READERS)


def is_predictions_file(path: Path) -> bool:
    """Whether there is a reader for this path, by its ending."""
    return path.suffix.lower() in READERS
