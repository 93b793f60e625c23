"""Reads readable names of classes whose ids are codes such as n01641577, and keeps them in split.json."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mptctl.data.split import Split, save_split
from mptctl.errors import UsageError, some
from mptctl.files import read_text

FLAG = "--class-labels"
# First cells, in lower case, of a first line that names the columns.
HEADS = {"id", "class", "synset", "wnid", "label"}
# Bytes of the file at most: room for a quarter of a million classes.
MOST_BYTES = 2**24


def read_class_labels(path: Path) -> dict[str, str]:
    """Read readable names of classes, by class id, from a file.

    A line is ``id,name`` in a .csv file; else the id, a tab or a space, and the name. A first line that names
    the columns is returned like any other, since a class may have its id.

    Raises:
        UsageError: the file cannot be read or is too large, a line has no name, or an id has two names.
        DataError: the path is a device or FIFO.
    """
    where = f"{FLAG} {path}"
    text = read_text(path.expanduser(), MOST_BYTES, where, "write an id and a name a line")
    names: dict[str, str] = {}
    for number, (label, name) in _read_rows(text.splitlines(), path.suffix.lower() == ".csv"):
        is_head = number == 1 and label.lower() in HEADS
        if not is_head and not (label and name):
            raise UsageError(
                f"{where}: line {number}: {label or name!r} alone; write an id and a name a line"
            )
        earlier_name = names.setdefault(label, name)
        if earlier_name != name:
            raise UsageError(
                f"{where}: line {number}: {label} has two names, {earlier_name!r} and {name!r}; keep one"
            )
    return names


def choose_class_labels(
    names: Mapping[str, str], classes: Sequence[str], path: Path
) -> tuple[dict[str, str], list[str]]:
    """Choose the readable names of a split's classes.

    Args:
        names: as `read_class_labels` returns them, perhaps with ids of other classes.
        classes: class ids of the split.
        path: the file of the names, for the message.

    Returns:
        The name of each class by id, and notes on classes without a name, unknown ids, and repeated names.

    Raises:
        UsageError: no id is a class of the split.
    """
    labels = {label: names[label] for label in classes if names.get(label)}
    total = sum(label in labels or label.lower() not in HEADS for label in names)
    if not labels:
        raise UsageError(
            f"{FLAG} {path}: none of its {total:,} ids is a class of the split, such as {some(classes, 1)}; "
            "write ids as split.json has them"
        )
    return labels, _make_notes(labels, total, classes)


def label_classes(split: Split, labels: Mapping[str, str]) -> Split:
    """Write readable names of classes into the split of a run root, and return the split with them.

    Args:
        split: the split of the run root.
        labels: names by class id; they replace all earlier names.

    Raises:
        StorageError: the split cannot be written.
    """
    named = replace(split, file=split.file.model_copy(update={"class_labels": dict(labels)}))
    save_split(named)
    return named


def _read_rows(lines: Sequence[str], has_commas: bool) -> list[tuple[int, tuple[str, str]]]:
    """Return number, id and name of each line that is not empty.

    A line with a tab is cut there, another one at its commas in a .csv file, else at its first space.

    Args:
        lines: lines of the file.
        has_commas: True for a .csv file.
    """
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if "\t" not in line and has_commas:
            cells = [cell.strip() for cell in next(csv.reader([line]))]
            label, name = cells[0], ", ".join(cells[1:])
        else:
            label, _, name = line.strip().partition("\t" if "\t" in line else " ")
        rows.append((number, (label.strip(), name.strip())))
    return rows


def _make_notes(labels: Mapping[str, str], total: int, classes: Sequence[str]) -> list[str]:
    """Make notes on classes without a name, ids of no class, and names of several classes.

    Args:
        labels: names by class id.
        total: number of ids in the file.
        classes: class ids of the split.
    """
    notes = []
    if without := [label for label in classes if label not in labels]:
        verb = "has no name and is" if len(without) == 1 else "have no name and are"
        notes.append(f"{some(without)} {verb} shown by id")
    if unknown := total - len(labels):
        noun = "id of the file is no class" if unknown == 1 else "ids of the file are no classes"
        notes.append(f"{unknown:,} {noun} of the split")
    counts = Counter(labels.values())
    if repeated := sorted(name for name, count in counts.items() if count > 1):
        notes.append(f"{some(repeated)}: the name of several classes, which their ids tell apart")
    return notes
