"""Answers of one model on one test set, and the files that carry them between frameworks."""

from __future__ import annotations

import ast
import json
import struct
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError, NonFiniteError, UsageError
from mptctl.storage import writing

SUFFIXES = (".npz", ".csv", ".parquet")
# Elements of logits that are looked at in one go: 8 MB in double precision, small beside any test set.
BLOCK = 2**20


@dataclass(frozen=True)
class Predictions:
    """What one model answered.

    Attributes:
        name: the file or run that it came from.
        ids: (N,) text, one per sample, none twice.
        labels: (N,) text, the true classes.
        preds: (N,) text, the answers.
        logits: (N, C) in any float type, possibly mapped from a file; None where only answers are known.
        classes: the labels that the model can answer, in the order of its logits; None where not known.
        origin: ``checkpoint`` for a model of ours, ``file`` for a predictions file.
    """

    name: str
    ids: NDArray[np.str_]
    labels: NDArray[np.str_]
    preds: NDArray[np.str_]
    logits: NDArray[Any] | None = None
    classes: tuple[str, ...] | None = None
    origin: Literal["file", "checkpoint"] = "file"

    def __len__(self) -> int:
        return len(self.ids)


def build_predictions(
    name: str,
    ids: NDArray[Any],
    labels: NDArray[Any],
    preds: NDArray[Any] | None = None,
    logits: NDArray[Any] | None = None,
    classes: tuple[str, ...] | None = None,
    origin: Literal["file", "checkpoint"] = "file",
) -> Predictions:
    """Check the parts of `Predictions` against each other and put them together.

    Args:
        name: the file or run, for messages.
        ids, labels, preds: (N,) integers or text; integers become their decimal text.
        logits: (N, C); with them `preds` follows, the first maximum of each row being the answer.
        classes: the C class labels in the order of the logits; without them, integers from 0.
        origin: where the model is from.

    Raises:
        DataError: parts that are missing, of unequal length, or contradict each other.
        NonFiniteError: rows of logits with NaN or plus infinity (minus infinity: never answered).
    """
    ids, labels = _text(ids, "id", name), _text(labels, "label", name)
    if not len(ids):
        raise DataError(f"{name}: holds no sample; write one row per test sample")
    if classes is not None and len(set(classes)) != len(classes):
        raise DataError(f"{name}: `classes` names a class twice; give each column of the logits its own name")
    if logits is None:
        if preds is None:
            raise DataError(f"{name}: holds neither `pred` nor `logits`; write one of them")
        answers = _text(preds, "pred", name)
        _same_length(name, ids, label=labels, pred=answers)
        if classes is not None and (outside := sorted(set(answers.tolist()) - set(classes))):
            raise DataError(f"{name}: answers that are not among its `classes`: {first(outside)}")
        return Predictions(name, ids, labels, answers, None, classes, origin)

    if logits.ndim != 2 or logits.dtype.kind != "f" or not logits.shape[1]:
        raise DataError(f"{name}: `logits` is {logits.dtype} {logits.shape}; write floats of shape (N, C)")
    _same_length(name, ids, label=labels, logits=logits)
    if classes is None:
        if not all(label.removeprefix("-").isdigit() for label in set(labels.tolist())):
            raise DataError(f"{name}: `logits` with text labels need `classes`, the label of each column")
        classes = tuple(str(i) for i in range(logits.shape[1]))
    if len(classes) != logits.shape[1]:
        raise DataError(f"{name}: {len(classes)} `classes` for {logits.shape[1]} columns of `logits`")
    column = first_maximum(logits, name)
    answers = np.array(classes, dtype=np.str_)[column]
    if preds is not None:
        _same_length(name, ids, pred=preds)
        _check_answers(name, _text(preds, "pred", name), answers, logits, classes)
    return Predictions(name, ids, labels, answers, logits, classes, origin)


def row_blocks(logits: NDArray[Any]) -> list[slice]:
    """Slices of rows that together cover (N, C) `logits`, each about `BLOCK` elements."""
    rows = max(1, BLOCK // max(1, logits.shape[1]))
    return [slice(start, start + rows) for start in range(0, len(logits), rows)]


def first_maximum(logits: NDArray[Any], name: str) -> NDArray[np.int64]:
    """(N,) column of the first maximum of each row of (N, C) `logits`; NonFiniteError where there is none."""
    column = np.empty(len(logits), dtype=np.int64)
    bad = 0
    for rows in row_blocks(logits):
        block = np.asarray(logits[rows])
        column[rows] = block.argmax(axis=1)
        # The maximum is NaN with any NaN, +inf with any +inf, and -inf where nothing can be answered.
        bad += int((~np.isfinite(np.take_along_axis(block, column[rows, None], axis=1))).sum())
    if bad:
        raise NonFiniteError(
            f"{name}: {bad} of {len(logits)} rows of logits are not finite; no rate follows from them"
        )
    return column


def is_predictions_file(path: Path) -> bool:
    """Whether `read_predictions` is meant for this path, by its ending."""
    return path.suffix.lower() in SUFFIXES


def read_predictions(path: Path) -> Predictions:
    """Read a predictions file of any framework.

    The file has arrays (``.npz``) or columns (``.csv``, ``.parquet``) `id`, `label`, and `pred` or `logits`,
    and may have `classes`. In a table a cell of `logits` or `classes` is a list; in CSV, as JSON.
    Logits in an uncompressed ``.npz`` stay on disk and are mapped.

    Raises:
        UsageError: another ending. DataError: missing, damaged or contradictory content.
        NonFiniteError: logits that are not finite.
    """
    name = str(path)
    if not is_predictions_file(path):
        raise UsageError(f"{name}: not a predictions file; use one of {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise DataError(f"{name}: no such file; write predictions there, or name a run folder or a .pt")
    try:
        columns = {".npz": _read_npz, ".csv": _read_csv, ".parquet": _read_parquet}[path.suffix.lower()](path)
    except DataError:
        raise
    except Exception as error:  # the readers raise a dozen types on a damaged file
        detail = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise DataError(f"{name}: cannot be read as {path.suffix[1:]} ({detail}); write it again") from error
    missing = [key for key in ("id", "label") if key not in columns]
    if missing:
        raise DataError(
            f"{name}: no {' and no '.join(f'`{key}`' for key in missing)}; found {first(sorted(columns))}"
        )
    classes = columns.get("classes")
    return build_predictions(
        name,
        columns["id"],
        columns["label"],
        columns.get("pred"),
        columns.get("logits"),
        None if classes is None else tuple(_text(classes, "classes", name).tolist()),
    )


def save_predictions(predictions: Predictions, path: Path) -> None:
    """Write an uncompressed ``.npz`` that `read_predictions` reads back; StorageError where it cannot be."""
    arrays: dict[str, NDArray[Any]] = {
        "id": predictions.ids,
        "label": predictions.labels,
        "pred": predictions.preds,
    }
    if predictions.classes is not None:
        arrays["classes"] = np.array(predictions.classes, dtype=np.str_)
    if predictions.logits is not None:
        arrays["logits"] = predictions.logits
    with writing(path) as stream:
        np.savez(stream, allow_pickle=False, **arrays)


def first(names: list[str]) -> str:
    """The first three of some names, and how many more there are."""
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return ", ".join(names[:3]) + more


def _read_npz(path: Path) -> dict[str, NDArray[Any]]:
    # Opened here, because numpy leaves the file open where it cannot read it.
    with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
        columns = {key: archive[key] for key in archive.files if key in ("id", "label", "pred", "classes")}
        if "logits" in archive.files:
            mapped = _map_member(path, "logits.npy")
            columns["logits"] = archive["logits"] if mapped is None else mapped
    return columns


def _map_member(path: Path, member: str) -> NDArray[Any] | None:
    """Map an array inside an .npz without reading it; None where it is compressed, or has no rows."""
    with zipfile.ZipFile(path) as archive:
        info = archive.getinfo(member)
        if info.compress_type != zipfile.ZIP_STORED:
            return None
        with archive.open(info) as file:
            version = np.lib.format.read_magic(file)
            read = (
                np.lib.format.read_array_header_1_0
                if version == (1, 0)
                else np.lib.format.read_array_header_2_0
            )
            shape, fortran, dtype = read(file)
            header = file.tell()
    if 0 in shape or dtype.hasobject:
        return None
    with path.open("rb") as raw:
        raw.seek(info.header_offset)
        # The local header: 30 bytes, the last four being the lengths of the name and extra field after it.
        name_length, extra_length = struct.unpack("<HH", raw.read(30)[26:])
    offset = info.header_offset + 30 + name_length + extra_length + header
    return np.memmap(path, dtype, "r", offset, shape, "F" if fortran else "C")


def _read_csv(path: Path) -> dict[str, NDArray[Any]]:
    import pandas

    # As text, and without pandas' list of words that mean "nothing": a class may be called NA.
    table = pandas.read_csv(path, dtype=str, keep_default_na=False)
    columns = {key: table[key].to_numpy(dtype=object) for key in ("id", "label", "pred") if key in table}
    if "logits" in table:
        columns["logits"] = _stack([json.loads(cell) for cell in table["logits"]], str(path))
    if "classes" in table and len(table):
        columns["classes"] = np.array([str(label) for label in ast.literal_eval(table["classes"].iloc[0])])
    return columns


def _read_parquet(path: Path) -> dict[str, NDArray[Any]]:
    from pyarrow import parquet

    table = parquet.read_table(path)
    columns = {key: table[key].to_numpy() for key in ("id", "label", "pred") if key in table.column_names}
    if "logits" in table.column_names:
        cells = table["logits"].combine_chunks()
        flat = cells.flatten().to_numpy(zero_copy_only=False)
        lengths = (
            np.diff(cells.offsets) if hasattr(cells, "offsets") else np.full(len(cells), cells.type.list_size)
        )
        if len(np.unique(lengths)) != 1:
            raise DataError(f"{path}: rows of `logits` are of different lengths; write (N, C)")
        columns["logits"] = flat.reshape(len(cells), -1)
    if "classes" in table.column_names and table.num_rows:
        columns["classes"] = np.array([str(label) for label in table["classes"][0].as_py()])
    return columns


def _stack(rows: list[list[float]], name: str) -> NDArray[np.float64]:
    if len({len(row) for row in rows}) > 1:
        raise DataError(f"{name}: rows of `logits` are of different lengths; write (N, C)")
    return np.array(rows, dtype=np.float64)


def _text(values: NDArray[Any], what: str, name: str) -> NDArray[np.str_]:
    """Labels and ids as text, so that 3 and "3" are the same class whatever the file's type."""
    values = np.asarray(values)
    if values.ndim != 1:
        raise DataError(f"{name}: `{what}` has shape {values.shape}; write one value per sample")
    if values.dtype.kind == "f":
        if not np.array_equal(values, np.round(values)):
            raise DataError(f"{name}: `{what}` holds numbers that are not whole; write integers or text")
        values = values.astype(np.int64)
    elif values.dtype.kind == "S":
        values = np.char.decode(values, "utf-8")
    elif values.dtype.kind == "O" and not all(isinstance(v, str | int | np.integer) for v in values):
        raise DataError(
            f"{name}: `{what}` holds empty cells or things that are no label; write integers or text"
        )
    text = values.astype(np.str_)
    if (text == "").any():
        raise DataError(f"{name}: {int((text == '').sum())} empty cells in `{what}`; write integers or text")
    return text


def _same_length(name: str, ids: NDArray[np.str_], **parts: NDArray[Any]) -> None:
    for what, part in parts.items():
        if len(part) != len(ids):
            raise DataError(
                f"{name}: {len(part)} rows of `{what}` for {len(ids)} of `id`; write them of equal length"
            )


def _check_answers(
    name: str,
    preds: NDArray[np.str_],
    answers: NDArray[np.str_],
    logits: NDArray[Any],
    classes: tuple[str, ...],
) -> None:
    """`pred` beside `logits` may differ from the first maximum only where another class ties with it."""
    column = {label: i for i, label in enumerate(classes)}
    wrong = [
        i
        for i in np.flatnonzero(preds != answers)
        if preds[i] not in column or logits[i, column[preds[i]]] < logits[i, column[answers[i]]]
    ]
    if wrong:
        raise DataError(
            f"{name}: `pred` is not the largest of `logits` in {len(wrong)} rows; write only one of them"
        )
