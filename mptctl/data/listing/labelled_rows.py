"""Turns the labels, parts and ids of a table or of shards into classes, and finds rows that are bad."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mptctl.data.listing.image_folder import PART_WORDS
from mptctl.data.listing.listing import make_rows
from mptctl.data.manifest import PART_CODES, TEST, TRAIN
from mptctl.errors import DataError, UsageError, did_you_mean, some
from mptctl.evaluation.reading.columns import whole_limit
from mptctl.files import read_names

# Files beside shards or a table that name the classes, one a line: the first line is of class 0.
_NAME_FILES = ("classes.txt", "classnames.txt")
# The label of every row where labels are not read.
ANY = "any"


@dataclass
class LabelledRows:
    """The rows of a table or of shards, in the order of the source.

    Attributes:
        ids: (n,) id of each row.
        labels: (n,) label of each row as text; "" where a row has none.
        parts: (n,) word for the part of each row, one of `PART_WORDS`; [] where the source has no parts.
        where: takes a row and returns its place in the source, for messages.
        problems: what is wrong with a bad row, by row.
        ids_in_parts: True where two parts may have the same id, as the shards of each part may count from 0.
    """

    ids: list[str]
    labels: list[str]
    parts: list[str]
    where: Callable[[int], str]
    problems: dict[int, str] = field(default_factory=dict)
    ids_in_parts: bool = False


def classify_rows(
    rows: LabelledRows,
    known: Sequence[str] | None,
    what: str,
    columns: Mapping[str, Sequence[Any]],
    further: Mapping[str, Any],
) -> tuple[tuple[str, ...], pa.Table]:
    """Give each row its class and part, and make the table of a listing.

    Adds an entry to ``rows.problems`` for each row with an empty or unknown label, an empty or repeated id,
    a label that only case or blanks tell from a more frequent one, or an unknown part.

    Args:
        rows: rows of a table or of shards.
        known: class names from a file beside the data, the name of class 0 first; None without a file.
        what: name of the source, for messages.
        columns: columns of the table but for ``label``, ``part``, ``word`` and ``problem``.
        further: the source's further columns.

    Returns:
        The class names, in the order of the file beside the data; without one, sorted as text or as numbers.
        And the table, in the order of the source; a bad row has the label 0.

    Raises:
        DataError: there is no row, or so many different labels that they must be captions or ids.
    """
    if not rows.ids:
        raise DataError(f"{what}: holds no picture; name a source that has some")
    _mark_blank(rows)
    _mark_other_spellings(rows)
    parts = _find_parts(rows)
    _mark_repeated_ids(rows, parts)
    counts = Counter(label for row, label in enumerate(rows.labels) if row not in rows.problems)
    # Of such classes not even half have a second picture, which the test part would need.
    if 2 * len(counts) > len(rows.ids):
        raise DataError(
            f"{what}: its labels are nearly all different ({len(counts):,} in {len(rows.ids):,} rows, such "
            f"as {some(counts)}): captions or ids; name the labels with --column label=NAME or "
            "--label-key KEY"
        )
    class_names, class_of_label = _index_classes(counts, known)
    for row, label in enumerate(rows.labels):
        if label not in class_of_label:
            problem = f"label {label} is none of the {len(class_names)} classes that are named"
            rows.problems.setdefault(row, problem)
    labels = [0 if row in rows.problems else class_of_label[label] for row, label in enumerate(rows.labels)]
    words = [PART_WORDS.get(word, "") for word in rows.parts] or [""] * len(rows.ids)
    found = {**columns, "label": labels, "part": parts, "word": words}
    return class_names, make_rows(found, rows.problems, further)


class LabelText(NamedTuple):
    """A label as text, and what is wrong with it; None for nothing."""

    text: str
    problem: str | None = None


def label_as_text(cell: Any) -> LabelText:
    """Return a label as text. As in predictions, 3.0 is "3".

    An empty cell and NaN are "", which `classify_rows` refuses.

    >>> label_as_text(3.0).text
    '3'
    """
    if cell is None or cell != cell:
        return LabelText("")
    if isinstance(cell, float) and cell.is_integer() and abs(cell) < whole_limit(np.dtype(float)):
        cell = int(cell)
    if isinstance(cell, bool) or not isinstance(cell, int | str):
        return LabelText("", f"label {cell!r} is neither a whole number nor text")
    return LabelText(str(cell))


def labels_as_text(cells: Iterable[Any]) -> tuple[list[str], dict[int, str]]:
    """Return the labels of a column as text, and what is wrong with a label, by row; see `label_as_text`."""
    labels = [label_as_text(cell) for cell in cells]
    problems = {row: label.problem for row, label in enumerate(labels) if label.problem is not None}
    return [label.text for label in labels], problems


def read_class_names(folder: Path) -> list[str] | None:
    """Read class names, the name of class 0 first, from ``classes.txt`` or ``classnames.txt`` in a folder.

    Returns:
        None where the folder has no such file.

    Raises:
        DataError: the file cannot be read, or names no classes.
    """
    files = (folder / name for name in _NAME_FILES if (folder / name).is_file())
    file = next(files, None)
    try:
        return None if file is None else read_names(file, "class names")
    except UsageError as error:
        raise DataError(str(error)) from error


def _mark_blank(rows: LabelledRows) -> None:
    """Add a problem for each row whose label or id is empty."""
    for what, texts in (("label", rows.labels), ("id", rows.ids)):
        for row, text in enumerate(texts):
            if not text.strip():
                rows.problems.setdefault(row, f"its {what} is empty")


def _mark_other_spellings(rows: LabelledRows) -> None:
    """Add a problem for each row whose label differs from a more frequent one by case or blanks alone."""
    counts = Counter(label for row, label in enumerate(rows.labels) if row not in rows.problems)
    spellings_of: defaultdict[str, list[str]] = defaultdict(list)
    for label in counts:
        spellings_of["".join(label.split()).casefold()].append(label)
    usual: dict[str, str] = {}
    for spellings in spellings_of.values():
        kept = min(spellings, key=lambda label: (-counts[label], label))
        usual |= {label: kept for label in spellings if label != kept}
    for row, label in enumerate(rows.labels):
        if label in usual:
            other = usual[label]
            difference = f"differs by case or blanks alone from {other!r}, which {counts[other]:,} rows have"
            rows.problems.setdefault(row, f"label {label!r} {difference}")


def _find_parts(rows: LabelledRows) -> list[int]:
    """Return the part of each row: TRAIN, VAL or TEST.

    A validation part is the test part of a source that has no test part. All rows are TRAIN in a source
    without parts. A row with an unknown word is TRAIN, and gets an entry in ``rows.problems``.
    """
    if not rows.parts:
        return [TRAIN] * len(rows.ids)
    code_of = PART_CODES if "test" in rows.parts else {**PART_CODES, "val": TEST}
    codes = {word: code_of[part] for word, part in PART_WORDS.items()}
    for row, word in enumerate(rows.parts):
        if word not in codes:
            problem = f"part {word!r} is none of {', '.join(PART_WORDS)}{did_you_mean(word, PART_WORDS)}"
            rows.problems.setdefault(row, problem)
    return [codes.get(word, TRAIN) for word in rows.parts]


def _mark_repeated_ids(rows: LabelledRows, parts: Sequence[int]) -> None:
    """Add a problem for each row whose id an earlier row has; with ``ids_in_parts``, one of the same part."""
    first_rows: dict[tuple[int, str], int] = {}
    for row, sample in enumerate(rows.ids):
        if row in rows.problems:
            continue
        scope = parts[row] if rows.ids_in_parts else 0
        first_row = first_rows.setdefault((scope, sample), row)
        if first_row != row:
            rows.problems[row] = f"id {sample} is there already: {rows.where(first_row)}"


def _index_classes(
    counts: Mapping[str, int], known: Sequence[str] | None
) -> tuple[tuple[str, ...], dict[str, int]]:
    """Return the class names, and the index of each label among them.

    Labels that are all whole numbers are sorted as numbers, or are indices into ``known``; other labels are
    sorted as text, or are looked up in ``known``.

    Args:
        counts: number of rows of each label.
        known: see `classify_rows`. A label that it does not have gets no index.
    """
    # pandas writes whole numbers as 3.0 where a cell of their column is empty.
    digits = {label: label.removesuffix(".0") for label in counts}
    # Not "007" or "-0", which stand for no index.
    numbers = {
        label: int(text)
        for label, text in digits.items()
        if text.removeprefix("-").isdecimal() and str(int(text)) == text
    }
    are_numbers = len(numbers) == len(counts)
    if known is None:
        names = sorted(counts, key=numbers.__getitem__) if are_numbers else sorted(counts)
        return tuple(names), {name: label for label, name in enumerate(names)}
    if are_numbers:
        return tuple(known), {text: label for text, label in numbers.items() if 0 <= label < len(known)}
    return tuple(known), {name: label for label, name in enumerate(known)}
