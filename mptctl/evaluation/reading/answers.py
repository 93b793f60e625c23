"""Answers of a model to pictures without labels, their files, and the marks of files that we wrote."""

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
from mptctl.evaluation.reading.predictions import first_maximum, row_blocks
from mptctl.evaluation.reading.readers import FORMS, form_of
from mptctl.files import writing
from mptctl.files.output_kinds import OutputKind


@dataclass(frozen=True, eq=False)
class Answers:
    """The answers of one model.

    Attributes:
        ids: (N,) text: paths of the pictures, or their places.
        answers: (N,) text, the class of the first maximum of each row of logits.
        confidences: (N,) softmax probability of the answer, in double precision.
        logits: (N, C) float32.
        classes: the C classes, in the order of the logits.
        left_out: pictures that were not asked, each with what is wrong with it.
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
        """Write a predictions file without labels, and but in CSV with `logits` and `classes`.

        With a column `label` added, `mptctl evaluate` takes it.

        Args:
            path: its ending, .npz, .csv or .parquet, says the form.

        Raises:
            UsageError: another ending. StorageError: it cannot be written.
        """
        write = answers_writer(Path(path))
        with writing(Path(path)) as stream:
            write(self, stream)
        return Path(path)


def answers_writer(path: Path) -> Callable[[Answers, IO[Any]], None]:
    """The writer of the form of a path's ending; UsageError where there is none."""
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
    """Answers and confidences of (N, C) logits; NonFiniteError, naming `name`, where a row has none."""
    column = first_maximum(logits, name)
    confidences = np.empty(len(logits))
    for rows in row_blocks(logits):
        block = logits[rows].astype(np.float64)
        confidences[rows] = 1 / np.exp(block - block.max(axis=1, keepdims=True)).sum(axis=1)
    return Answers(ids, np.array(classes, dtype=np.str_)[column], confidences, logits, classes, left_out)


def _write_npz(found: Answers, stream: IO[Any]) -> None:
    np.savez(
        stream,
        allow_pickle=False,
        id=found.ids,
        pred=found.answers,
        confidence=found.confidences,
        logits=found.logits,
        classes=np.array(found.classes, dtype=np.str_),
    )


def _write_csv(found: Answers, stream: IO[Any]) -> None:
    text = io.TextIOWrapper(stream, encoding="utf-8", newline="", write_through=True)
    rows = csv.writer(text, lineterminator="\n")
    rows.writerow(["id", "pred", "confidence"])
    rows.writerows(zip(found.ids.tolist(), found.answers.tolist(), found.confidences.tolist(), strict=True))
    text.detach()


def _write_parquet(found: Answers, stream: IO[Any]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    classes = pa.array(found.classes, pa.string())

    def table(rows: slice) -> pa.Table:
        logits = found.logits[rows]
        n, c = logits.shape
        names = classes.take(pa.array(np.tile(np.arange(c), n)))
        return pa.table(
            {
                "id": pa.array(found.ids[rows].tolist(), pa.string()),
                "pred": pa.array(found.answers[rows].tolist(), pa.string()),
                "confidence": pa.array(found.confidences[rows]),
                "logits": pa.FixedSizeListArray.from_arrays(pa.array(logits.reshape(-1)), c),
                "classes": pa.FixedSizeListArray.from_arrays(names, c),
            }
        )

    # Block by block, since the list of classes stands in each row.
    first, *others = row_blocks(found.logits)
    begin = table(first)
    with parquet.ParquetWriter(stream, begin.schema) as file:
        file.write_table(begin)
        for rows in others:
            file.write_table(table(rows))


_WRITERS = {".csv": _write_csv, ".npz": _write_npz, ".parquet": _write_parquet}


def _has_columns(needed: set[str], possible: set[str]) -> Callable[[Path], bool]:
    """Tell whether a file has these columns and no others: to one with others somebody has added work."""

    def known(path: Path) -> bool:
        if path.suffix.lower() not in FORMS:
            return False
        try:
            found = set(form_of(path).headers(path))
        except OSError:
            raise
        except Exception:  # whatever zipfile, csv and pyarrow raise of what is no file of theirs
            return False
        return needed <= found <= needed | possible

    return known


ANSWERS = OutputKind(
    "predictions without labels", _has_columns({"id", "pred", "confidence"}, {"logits", "classes"})
)
SAVED = OutputKind("predictions", _has_columns({"id", "label", "pred"}, {"logits", "classes"}))
