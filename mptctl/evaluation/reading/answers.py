"""Answers of a model to pictures without labels, their files, and how files that we wrote are recognised."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import UsageError
from mptctl.evaluation.reading.logits import confidences, first_maximum, row_blocks
from mptctl.files import writing


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of one model to N pictures without labels.

    Attributes:
        ids: (N,) text: paths of the pictures, or their places from 0.
        answers: (N,) text: the class of the first maximum of each row of logits.
        confidences: (N,) softmax probability of the answer, in double precision.
        logits: (N, C) float32.
        classes: the C classes, in the order of the logits.
        left_out: one line for each picture that was left out, with what is wrong with it.
    """

    ids: NDArray[np.str_]
    answers: NDArray[np.str_]
    confidences: NDArray[np.float64]
    logits: NDArray[np.float32]
    classes: tuple[str, ...]
    left_out: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    def save(self, path: str | Path) -> Path:
        """Write a predictions file without labels.

        It has the columns `id`, `pred` and `confidence`, and in .npz and .parquet also `logits` and
        `classes`. `mptctl evaluate` takes it once a column `label` is added.

        Args:
            path: of the file; the ending, .npz, .csv or .parquet, is the form.

        Returns:
            The path.

        Raises:
            UsageError: the path has another ending.
            StorageError: the file cannot be written.
        """
        write = answers_writer(Path(path))
        with writing(Path(path)) as stream:
            write(self, stream)
        return Path(path)


def answers_writer(path: Path) -> Callable[[Answers, IO[Any]], None]:
    """Return the function that writes answers in the form of a path's ending; UsageError if there is none."""
    if path.suffix.lower() not in _WRITERS:
        raise UsageError(f"{path}: no form of predictions file; use one of {', '.join(_WRITERS)}")
    return _WRITERS[path.suffix.lower()]


def answers_from_logits(
    name: str,
    ids: NDArray[np.str_],
    logits: NDArray[np.float32],
    classes: tuple[str, ...],
    left_out: tuple[str, ...] = (),
) -> Answers:
    """Make the answers of a model, with their confidences, from its logits.

    Args:
        name: of the model, for messages.
        ids: (N,) of the pictures.
        logits: (N, C).
        classes: the C classes.
        left_out: one line for each picture that was left out.

    Raises:
        NonFiniteError: the maximum of a row of logits is NaN or infinite.
    """
    answers = np.array(classes, dtype=np.str_)[first_maximum(logits, name)]
    sure = confidences(logits, np.arange(len(logits)))
    return Answers(ids, answers, sure, logits, classes, left_out)


def _write_npz(answers: Answers, stream: IO[Any]) -> None:
    np.savez(
        stream,
        allow_pickle=False,
        id=answers.ids,
        pred=answers.answers,
        confidence=answers.confidences,
        logits=answers.logits,
        classes=np.array(answers.classes, dtype=np.str_),
    )


def _write_csv(answers: Answers, stream: IO[Any]) -> None:
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
    columns = (answers.ids.tolist(), answers.answers.tolist(), answers.confidences.tolist())
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["id", "pred", "confidence"])
    rows.writerows(zip(*columns, strict=True))
    text.detach()  # leaves the stream open


def _write_parquet(answers: Answers, stream: IO[Any]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    classes = pa.array(answers.classes, pa.string())

    def table(rows: slice) -> pa.Table:
        logits = answers.logits[rows]
        n, c = logits.shape
        class_cells = classes.take(pa.array(np.tile(np.arange(c), n)))
        return pa.table(
            {
                "id": pa.array(answers.ids[rows].tolist(), pa.string()),
                "pred": pa.array(answers.answers[rows].tolist(), pa.string()),
                "confidence": pa.array(answers.confidences[rows]),
                "logits": pa.FixedSizeListArray.from_arrays(pa.array(logits.reshape(-1)), c),
                "classes": pa.FixedSizeListArray.from_arrays(class_cells, c),
            }
        )

    # Written in blocks of rows, since each row has the whole list of classes.
    first_block, *other_blocks = row_blocks(answers.logits)
    first_table = table(first_block)
    with parquet.ParquetWriter(stream, first_table.schema) as file:
        file.write_table(first_table)
        for rows in other_blocks:
            file.write_table(table(rows))


_WRITERS = {".csv": _write_csv, ".npz": _write_npz, ".parquet": _write_parquet}
