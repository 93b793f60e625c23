"""Files of pairs of names: what a class becomes, or which superclass it belongs to."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path

from mptctl.errors import UsageError
from mptctl.evaluation.reading.columns import first
from mptctl.evaluation.reading.workspace import current
from mptctl.files import read_text
from mptctl.files.explained import shown

# Room for a quarter of a million classes.
MOST_BYTES = 2**24


def read_pairs(path: Path, flag: str, columns: tuple[str, str]) -> tuple[tuple[str, str], ...]:
    """Read ``.yaml`` of `one: other` or `one: [other, other]`, or ``.csv`` with two columns.

    Args:
        path: of the file.
        flag: that named it, for messages.
        columns: what the two names are.

    Returns:
        Pairs, each once, in the order of the file; at least one.

    Raises:
        UsageError: another ending, a file that cannot be read or is too large, an empty name, or anything but
            pairs.
        DataError: a device or FIFO.
    """
    name = f"{flag} {path}"
    write = f"write .yaml ({': '.join(columns)}) or .csv (columns {', '.join(columns)})"
    read = {".csv": _read_csv, ".yaml": _read_yaml, ".yml": _read_yaml}.get(path.suffix.lower())
    if read is None:
        raise UsageError(f"{name}: cannot be read by its ending; {write}")
    text = read_text(path, MOST_BYTES, name, write, "name classes, not samples")
    pairs = tuple(dict.fromkeys(read(name, text, columns)))
    if not pairs or not all(one and other for one, other in pairs):
        raise UsageError(f"{name}: {'holds an empty name' if pairs else 'names no class'}; {write}")
    return pairs


def pairs_relation(names: Mapping[str, str]) -> str:
    """SQL: a small relation of `name` and `common`, in the workspace; drop the view when it is done."""
    return current().register({"name": list(names), "common": list(names.values())})


def _read_yaml(name: str, text: str, columns: tuple[str, str]) -> Iterable[tuple[str, str]]:
    from mptctl.files.yaml_text import read_yaml

    content = read_yaml(text, name)
    if not isinstance(content, dict):
        raise UsageError(f"{name}: must be a mapping; write {': '.join(columns)}")
    for one, others in content.items():
        listed = others if isinstance(others, list) else [others]
        if not all(isinstance(each, str) for each in (one, *listed)):
            raise UsageError(f"{name}: {shown(str(one))}: must be a name, or a list of names")
        yield from ((one, str(other)) for other in listed)


def _read_csv(name: str, text: str, columns: tuple[str, str]) -> Iterable[tuple[str, str]]:
    try:
        rows = [row for row in csv.reader(io.StringIO(text, newline=""), strict=True) if row]
    except csv.Error as error:
        raise UsageError(f"{name}: {error}; write the columns {' and '.join(columns)}") from error
    if not rows or sorted(rows[0]) != sorted(columns):
        found = first(rows[0]) if rows else "none"
        raise UsageError(f"{name}: its columns are {found}; write {','.join(columns)}")
    places = [rows[0].index(column) for column in columns]
    for number, row in enumerate(rows[1:], 2):
        if len(row) != 2:
            raise UsageError(f"{name}: row {number} has {len(row)} fields; write two names")
        yield row[places[0]], row[places[1]]
