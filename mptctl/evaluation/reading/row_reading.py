"""Predictions that are read row by row: those with logits, and those whose fault is to be named."""

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
    """The columns of files of one form, one file after another; each row is looked at.

    Raises:
        DataError: columns that are missing or unlike in two parts, or what the reader of the form refuses.
        StorageError: more than fits into memory.
    """
    read = [_read_columns(part) for part in parts]
    wanted = _known_columns(read[0])
    for part, columns in zip(parts, read, strict=True):
        where = str(part)
        missing = [key for key in ("id", "label") if key not in columns]
        if missing:
            raise DataError(
                f"{where}: no {' and no '.join(f'`{key}`' for key in missing)}; {_found_headers(part)}; "
                "name them `id`, `label`, and `pred` or `logits`"
            )
        if "pred" not in columns and "logits" not in columns:
            raise DataError(
                f"{where}: holds neither `pred` nor `logits`; write one of them; {_found_headers(part)}"
            )
        if _known_columns(columns) != wanted:
            raise DataError(
                f"{where}: columns {', '.join(_known_columns(columns))}, and in {parts[0]}: "
                f"{', '.join(wanted)}; write the same columns into all parts"
            )
    return read[0] if len(read) == 1 else _joined(parts, read)


def _found_headers(part: Path) -> str:
    return f"found {first(form_of(part).headers(part))}"


def _known_columns(columns: Columns) -> list[str]:
    return sorted(set(columns) & set(COLUMNS))


def _read_columns(part: Path) -> Columns:
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
    except Exception as error:  # the readers raise a dozen types on a damaged file
        raise unreadable(part, error, f" as {part.suffix[1:]}") from error


def _joined(parts: Sequence[Path], read: Sequence[Columns]) -> Columns:
    """The columns of parts one after another; their class lists must be one."""
    whole: Columns = {}
    for key in set(read[0]) & set(COLUMNS):
        columns = [columns[key] for columns in read]
        if key == "classes":
            lists = [class_names(c, str(part)) for part, c in zip(parts, columns, strict=True)]
            if odd := [part for part, names in zip(parts, lists, strict=True) if names != lists[0]]:
                raise DataError(
                    f"{odd[0]}: `classes` differs from that of {parts[0]}; write the same list into all parts"
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
