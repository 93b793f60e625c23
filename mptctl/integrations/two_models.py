"""Predictions of two models that bring their own ids and labels, in files or in frames."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa

from mptctl.errors import UsageError
from mptctl.evaluation.reading.columns import COLUMNS
from mptctl.evaluation.reading.frames import arrow_column, column_names, is_frame
from mptctl.evaluation.reading.predictions import Predictions, read_frame, read_predictions

# The call that takes arrays, with labels (True) and without.
ARRAYS = {True: "evaluate(labels, old=..., new=...)", False: "disagree(old, new), both of them arrays"}


def read_model(value: Any, argument: str, names: dict[str, str], *, labelled: bool = True) -> Predictions:
    """Read the predictions of one model from a file, or from a frame of pandas, polars or Arrow, into memory.

    Args:
        value: a path as `mptctl evaluate` takes it, or a frame with the columns of a predictions file.
        argument: the Python argument that gave it; the name of a frame's model, and for messages.
        names: the columns of a frame that have other names than in a file, by name in a file.
        labelled: False: no labels are needed or read.

    Raises:
        UsageError: it is neither, a column is not there, or a file has another ending.
        DataError, NonFiniteError, StorageError: as `read_predictions`.
    """
    if isinstance(value, str | Path):
        return read_predictions(Path(value).expanduser(), labelled=labelled).in_memory()
    if not is_frame(value):
        raise UsageError(
            f"{argument}: neither a predictions file nor a frame with ids, labels and predictions; for "
            f"arrays give {ARRAYS[labelled]}"
        )
    there = column_names(value)
    wanted = {key: names.get(key, key) for key in COLUMNS if labelled or key != "label"}
    optional = {"pred", "logits", "classes"}
    columns = {
        key: arrow_column(value, name, argument)
        for key, name in wanted.items()
        if key not in optional or name in there
    }
    if not columns.keys() & {"pred", "logits"}:
        arrow_column(value, wanted["pred"], argument)  # raises the error that there is no such column
    return read_frame(pa.table(columns), argument, labelled=labelled)


def refuse_arguments_of_arrays(**arguments: Any) -> None:
    """Raise UsageError for an argument that goes with arrays, beside two files or frames."""
    for name, value in arguments.items():
        if value is not None:
            own = {"ids": "id", "old_classes": "classes"}.get(name, name)
            raise UsageError(f"{name}: is for arrays; two files or frames have their own `{own}`")
