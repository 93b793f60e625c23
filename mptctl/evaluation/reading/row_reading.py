"""Predictions read row by row: those with logits, and those that a scan cannot judge."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from mptctl.errors import DataError, MptctlError, StorageError
from mptctl.evaluation.reading.columns import COLUMNS, class_names, first, unreadable
from mptctl.evaluation.reading.readers import form_of
from mptctl.evaluation.reading.table import kind_of_ids
from mptctl.evaluation.reading.workspace import free_memory, shown_size

if TYPE_CHECKING:
    from mptctl.evaluation.reading.readers import Columns


def read_rows(parts: Sequence[Path]) -> Columns:
    """Read the columns of files of one form into memory, one file after another, and check each row.

    Raises:
        DataError: a part lacks a column, two parts differ in columns, types or classes, or the reader of the
            form refuses a value.
        StorageError: the parts do not fit into memory.
    """
    contents = [_read_columns(part) for part in parts]
    wanted = _known_columns(contents[0])
    for part, columns in zip(parts, contents, strict=True):
        missing = [key for key in ("id", "label") if key not in columns]
        if missing:
            raise DataError(
                f"{part}: no {' and no '.join(f'`{key}`' for key in missing)}; {_say_headers(part)}; "
                "name them `id`, `label`, and `pred` or `logits`"
            )
        if "pred" not in columns and "logits" not in columns:
            raise DataError(
                f"{part}: holds neither `pred` nor `logits`; write one of them; {_say_headers(part)}"
            )
        if _known_columns(columns) != wanted:
            raise DataError(
                f"{part}: columns {', '.join(_known_columns(columns))}, and in {parts[0]}: "
                f"{', '.join(wanted)}; write the same columns into all parts"
            )
    return contents[0] if len(contents) == 1 else _join_parts(parts, contents)


def _say_headers(part: Path) -> str:
    """Say which columns a file has, for a message on one that it lacks."""
    return f"found {first(form_of(part).headers(part))}"


def _known_columns(columns: Columns) -> list[str]:
    """The names, sorted, of those columns that predictions files have."""
    return sorted(set(columns) & set(COLUMNS))


def _read_columns(part: Path) -> Columns:
    """Read the columns of one file.

    Raises:
        DataError: the file is damaged, or the reader of the form refuses a value.
        StorageError: the columns do not fit into memory.
    """
    form = form_of(part)
    try:
        needed, free = form.memory_needed(part), free_memory()
        if needed > free:
            raise StorageError(
                f"{part}: holds logits, or cells that each have to be looked at, which takes "
                f"{shown_size(needed)} of memory where {shown_size(free)} are free; write logits into an "
                "uncompressed .npz (numpy.savez), or only `pred`"
            )
        return form.read(part)
    except MptctlError:
        raise
    except MemoryError as error:
        raise StorageError(
            f"{part}: needs more memory than there is ({error}); "
            "write logits into an uncompressed .npz (numpy.savez), then they stay on disk"
        ) from error
    except Exception as error:  # the libraries raise a dozen types on a damaged file
        raise unreadable(part, error, f" as {part.suffix[1:]}") from error


def _join_parts(parts: Sequence[Path], contents: Sequence[Columns]) -> Columns:
    """Join the columns of parts, one part after another.

    Args:
        parts: the files, for messages.
        contents: the columns of each part; all parts have the same columns.

    Raises:
        DataError: the parts differ in their class lists, in the type of a column, or in the width of logits.
    """
    whole: Columns = {}
    for key in _known_columns(contents[0]):
        columns = [content[key] for content in contents]
        if key == "classes":
            lists = [class_names(column, str(part)) for part, column in zip(parts, columns, strict=True)]
            differing = [part for part, names in zip(parts, lists, strict=True) if names != lists[0]]
            if differing:
                raise DataError(
                    f"{differing[0]}: `classes` differs from that of {parts[0]}; write the same list into "
                    "all parts"
                )
            whole[key] = columns[0]
            continue
        kinds = {kind_of_ids(column): part for part, column in zip(parts, columns, strict=True)}
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
