"""Files of pairs of names: a class in OLD, and what it becomes in NEW."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable
from pathlib import Path

from mptctl.errors import UsageError
from mptctl.evaluation.reading.columns import first
from mptctl.files import read_text
from mptctl.files.explained import shown

# Largest file in bytes: room for a quarter of a million classes.
MOST_BYTES = 2**24
# The columns of a CSV file.
COLUMNS = ("old", "new")
WRITE = f"write .yaml ({': '.join(COLUMNS)}) or .csv (columns {', '.join(COLUMNS)})"


def read_pairs(path: Path) -> tuple[tuple[str, str], ...]:
    """Read pairs of names from ``.yaml`` of `one: other` or `one: [other, other]`, or ``.csv``.

    Args:
        path: of the file of --class-map.

    Returns:
        Pairs in the order of `COLUMNS`, each once, in the order of the file; at least one.

    Raises:
        UsageError: the file has another ending, cannot be read, is larger than `MOST_BYTES`, has an empty
            name, or holds anything but pairs of names.
        DataError: the file is a device or FIFO.
    """
    name = f"--class-map {path}"
    read = {".csv": _read_csv, ".yaml": _read_yaml, ".yml": _read_yaml}.get(path.suffix.lower())
    if read is None:
        raise UsageError(f"{name}: cannot be read by its ending; {WRITE}")
    text = read_text(path, MOST_BYTES, name, WRITE, "name classes, not samples")
    pairs = tuple(dict.fromkeys(read(name, text)))
    if not pairs:
        raise UsageError(f"{name}: names no class; {WRITE}")
    if any("" in names for names in pairs):
        raise UsageError(f"{name}: holds an empty name; {WRITE}")
    return pairs


def _read_yaml(name: str, text: str) -> Iterable[tuple[str, str]]:
    """Yield the pairs of a YAML text; UsageError, which begins with `name`, where it holds anything else."""
    from mptctl.files.yaml_text import read_yaml

    content = read_yaml(text, name)
    if not isinstance(content, dict):
        raise UsageError(f"{name}: must be a mapping; write {': '.join(COLUMNS)}")
    for one, others in content.items():
        listed = others if isinstance(others, list) else [others]
        if not all(isinstance(each, str) for each in (one, *listed)):
            raise UsageError(f"{name}: {shown(str(one))}: must be a name, or a list of names")
        yield from ((one, str(other)) for other in listed)


def _read_csv(name: str, text: str) -> Iterable[tuple[str, str]]:
    """Yield the pairs of a CSV text; UsageError, which begins with `name`, where it has other columns."""
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error as error:
        raise UsageError(f"{name}: {error}; write the columns {' and '.join(COLUMNS)}") from error
    if not rows or sorted(rows[0]) != sorted(COLUMNS):
        header = first(rows[0]) if rows else "none"
        raise UsageError(f"{name}: its columns are {header}; write {','.join(COLUMNS)}")
    places = [rows[0].index(column) for column in COLUMNS]
    for number, row in enumerate(rows[1:], 2):
        if len(row) != 2:
            raise UsageError(f"{name}: row {number} has {len(row)} fields; write two names")
        yield row[places[0]], row[places[1]]
