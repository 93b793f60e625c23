"""Predictions in a Parquet file, read in batches."""

from __future__ import annotations

import glob
from collections import deque
from collections.abc import Generator, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from pyarrow import parquet, types

from mptctl.evaluation.reading.arrow_batches import read_batches
from mptctl.evaluation.reading.columns import LONGEST_VALUE, is_label_type, too_long
from mptctl.evaluation.reading.workspace import current, interrupts_kept

# Rows that are decoded at once, and where each row has a list: with 1,000 classes of ten letters in each row,
# these are 40 MB.
BATCH, BATCH_OF_LISTS = 2**18, 4096
# Batches that are decoded ahead, while others are written into the database.
AHEAD, AHEAD_OF_LISTS = 4, 1


def headers(path: Path) -> list[str]:
    """Read the names of the columns."""
    return list(parquet.read_schema(path).names)


def batches(path: Path, wanted: Sequence[str]) -> Generator[dict[str, Any]]:
    """Read some columns batch by batch, as `read_batches` yields them and with its errors.

    Raises:
        DataError: an id, a label or a name of a class is a very long text.
        pyarrow.ArrowException: no Parquet file, or a damaged one.
    """
    schema = parquet.read_schema(path)
    has_lists = not {"logits", "classes"}.isdisjoint(wanted)
    _refuse_long_texts(path, schema, wanted)
    # Labels and predictions stay as the dictionary in which Parquet stores repeated text.
    coded = [
        name for name in ("label", "pred") if name in wanted and types.is_string(schema.field(name).type)
    ]
    with parquet.ParquetFile(path, read_dictionary=coded) as file:
        size, ahead = (BATCH_OF_LISTS, AHEAD_OF_LISTS) if has_lists else (BATCH, AHEAD)
        found = file.iter_batches(size, columns=list(wanted), use_threads=False)
        yield from read_batches(str(path), file.schema_arrow, _decoded_ahead(found, ahead), wanted)


def _decoded_ahead(batches: Iterator[pa.RecordBatch], ahead: int) -> Generator[pa.RecordBatch]:
    """Yield batches while a thread decodes so many further ones."""
    with ThreadPoolExecutor(1) as decoder:
        coming = deque(decoder.submit(next, batches, None) for _ in range(ahead))
        while (batch := coming.popleft().result()) is not None:
            coming.append(decoder.submit(next, batches, None))
            yield batch


def _refuse_long_texts(path: Path, schema: pa.Schema, columns: Sequence[str]) -> None:
    """Raise DataError where a cell, or a class of the first row, is a very long text.

    A text that a file holds once, in a few bytes, may stand in very many rows; DuckDB measures it without a
    copy.
    """
    escaped = glob.escape(str(path.resolve())).replace("'", "''")
    source = f"read_parquet('{escaped}', hive_partitioning=false)"
    with interrupts_kept():
        for name in columns:
            kind = schema.field(name).type
            cell = '"' + name.replace('"', '""') + '"'
            relation = source
            if name == "classes" and hasattr(kind, "value_type"):
                kind = kind.value_type
                relation = f"(SELECT unnest(classes) AS classes FROM (SELECT classes FROM {source} LIMIT 1))"
            kind = kind.value_type if types.is_dictionary(kind) else kind
            if not is_label_type(kind) or types.is_integer(kind) or types.is_floating(kind):
                continue
            measure = "octet_length" if types.is_binary(kind) or types.is_large_binary(kind) else "strlen"
            try:
                query = f"SELECT max({measure}({cell})) FROM {relation}"
                ((longest,),) = current().unlimited.execute(query).fetchall()
            except duckdb.Error:
                continue  # what is unusual or damaged is judged where the file is read
            if longest is not None and longest > LONGEST_VALUE:
                raise too_long(path, name, longest)
