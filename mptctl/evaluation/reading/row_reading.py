"""Predictions that are read row by row: those with logits, and those with something wrong that is to be named."""

from __future__ import annotations

import glob
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mptctl.errors import DataError, MptctlError, StorageError, one_line
from mptctl.evaluation.reading.columns import COLUMNS, as_text, first
from mptctl.evaluation.reading.readers import READERS, headers
from mptctl.evaluation.reading.table import number_kind
from mptctl.evaluation.reading.workspace import free_memory, shown_size
from mptctl.files.explained import shown

if TYPE_CHECKING:
    from mptctl.evaluation.reading.readers import Columns

# Bytes that a table takes as Python's values for each byte that it takes as a file: five of text of ten letters.
SWELLING = 5
# Bytes of a short text or a number as Python's value with its place in an array, and of a logit that is copied once.
CELL_BYTES, LOGIT_BYTES = 64, 12


def read_rows(parts: Sequence[Path]) -> Columns:
    """The columns of files of one form, one file after another; each row is looked at.

    Raises:
        DataError: columns that are missing or unlike in two parts, or what the reader of the form refuses.
        StorageError: more than fits into memory.
    """
    read = [_columns(part) for part in parts]
    wanted = _ours(read[0])
    for part, columns in zip(parts, read, strict=True):
        where = str(part)
        missing = [key for key in ("id", "label") if key not in columns]
        if missing:
            raise DataError(
                f"{where}: no {' and no '.join(f'`{key}`' for key in missing)}; found {first(headers(part))}; "
                "name them `id`, `label`, and `pred` or `logits`"
            )
        if "pred" not in columns and "logits" not in columns:
            raise DataError(
                f"{where}: holds neither `pred` nor `logits`; write one of them; found {first(headers(part))}"
            )
        if _ours(columns) != wanted:
            raise DataError(
                f"{where}: columns {', '.join(_ours(columns))}, and in {parts[0]}: {', '.join(wanted)}; "
                "write the same columns into all parts"
            )
    return read[0] if len(read) == 1 else _joined(parts, read)


def _ours(columns: Columns) -> list[str]:
    return sorted(set(columns) & set(COLUMNS))


def _columns(part: Path) -> Columns:
    try:
        _refuse_more_than_memory(part)
        return READERS[part.suffix.lower()](part)
    except MptctlError:
        raise
    except MemoryError as error:
        raise StorageError(
            f"{part}: needs more memory than there is ({error}); "
            "write logits into an uncompressed .npz (numpy.savez), then they stay on disk"
        ) from error
    except Exception as error:  # the readers raise a dozen types on a damaged file
        detail = shown(one_line(error), 200)
        raise DataError(f"{part}: cannot be read as {part.suffix[1:]} ({detail}); write it again") from error


def _refuse_more_than_memory(part: Path) -> None:
    """Tables are looked at as a whole here; archives say what they need array by array, and are mapped."""
    size = part.stat().st_size
    if part.suffix.lower() == ".parquet":
        needed = _parquet_needs(part)
    elif part.suffix.lower() == ".npz":
        return
    else:
        needed = SWELLING * size
    free = free_memory()
    if needed > free:
        raise StorageError(
            f"{part}: holds logits, or cells that each have to be looked at, which takes {shown_size(needed)} of "
            f"memory where {shown_size(free)} are free; write logits into an uncompressed .npz (numpy.savez), "
            "or only `pred`"
        )


def _parquet_needs(part: Path) -> int:
    """Bytes that the columns of a Parquet file take; a value that is stored once may stand in very many rows."""
    import duckdb

    # Not by pyarrow, which ends the whole program where the figures of a column's chunk do not fit its type.
    with duckdb.connect(":memory:", config={"autoinstall_known_extensions": False}) as database:
        chunks = database.execute(
            "SELECT path_in_schema, num_values, total_uncompressed_size FROM parquet_metadata(?)",
            [glob.escape(str(part.resolve()))],
        ).fetchall()
    needed = 0
    for path, values, size in chunks:
        name = path.split(", ")[0]
        if name == "logits":
            needed += LOGIT_BYTES * values
        elif name in COLUMNS and name != "classes":  # of class lists the first is kept
            needed += max(SWELLING * size, CELL_BYTES * values)
    return needed


def _joined(parts: Sequence[Path], read: Sequence[Columns]) -> Columns:
    """The columns of parts one after another; their class lists must be one."""
    whole: Columns = {}
    for key in set(read[0]) & set(COLUMNS):
        columns = [columns[key] for columns in read]
        if key == "classes":
            lists = [as_text(c, key, str(part)).tolist() for part, c in zip(parts, columns, strict=True)]
            if odd := [part for part, names in zip(parts, lists, strict=True) if names != lists[0]]:
                raise DataError(
                    f"{odd[0]}: `classes` differs from that of {parts[0]}; write the same list into all parts"
                )
            whole[key] = columns[0]
            continue
        kinds = {number_kind(column): part for part, column in zip(parts, columns, strict=True)}
        if key != "logits" and len(kinds) > 1:
            examples = [f"{kind} in {part}" for kind, part in kinds.items()]
            raise DataError(
                f"{parts[0]}: `{key}` is of another type in another part ({first(examples)}); "
                "write one type into all parts"
            )
        if key == "logits" and len({column.shape[1:] for column in columns}) > 1:
            raise DataError(f"{parts[0]}: parts with `logits` of different lengths; write (N, C)")
        whole[key] = np.concatenate(columns)
    return whole
