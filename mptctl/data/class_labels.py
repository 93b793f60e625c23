"""Names for people beside class ids such as n01641577: read from a file, kept in split.json."""

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
# First cells of a line that names its columns.
HEADS = {"id", "class", "synset", "wnid", "label"}
# Room for a quarter of a million classes.
MOST_BYTES = 2**24


def read_class_labels(path: Path, classes: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Names of classes: `id,name` in a .csv file, else the id, a tab or spaces, and the name.

    Args:
        path: of the file; it may hold ids of other classes, too.
        classes: ids of the split.

    Returns:
        The name of each class that the file has, by id; and notes on those that it lacks.

    Raises:
        UsageError: the file cannot be read or is too large, a line has no name, an id has two names, or none
            is a class of the split.
        DataError: a device or FIFO.
    """
    where = f"{FLAG} {path}"
    text = read_text(path.expanduser(), MOST_BYTES, where, "write an id and a name a line")
    found: dict[str, str] = {}
    for number, (label, name) in _rows(text.splitlines(), path.suffix.lower() == ".csv"):
        if number == 1 and label.lower() in HEADS and label not in classes:
            continue
        if not label or not name:
            raise UsageError(
                f"{where}: line {number}: {label or name!r} alone; write an id and a name a line"
            )
        earlier_name = found.setdefault(label, name)
        if earlier_name != name:
            raise UsageError(
                f"{where}: line {number}: {label} has two names, {earlier_name!r} and {name!r}; keep one"
            )
    labels = {label: found[label] for label in classes if label in found}
    if not labels:
        raise UsageError(
            f"{where}: none of its {len(found):,} ids is a class of the split, such as {some(classes, 1)}; "
            "write ids as split.json has them"
        )
    return labels, _notes(labels, found, classes)


def label_classes(split: Split, labels: Mapping[str, str]) -> Split:
    """The split with names for people beside its class ids, written; everything else stays as it is.

    Args:
        split: of a run root.
        labels: names by id; those of earlier names are replaced.

    Raises:
        StorageError: it cannot be written.
    """
    named = replace(split, file=split.file.model_copy(update={"class_labels": dict(labels)}))
    save_split(named)
    return named


def _rows(lines: Sequence[str], commas: bool) -> list[tuple[int, tuple[str, str]]]:
    """Number, id and name of each line that is not empty."""
    rows = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if "\t" not in line and commas:
            cells = [cell.strip() for cell in next(csv.reader([line]))]
            label, name = cells[0], ", ".join(cells[1:])
        else:
            label, _, name = line.strip().partition("\t" if "\t" in line else " ")
        rows.append((number, (label.strip(), name.strip())))
    return rows


def _notes(labels: Mapping[str, str], found: Mapping[str, str], classes: Sequence[str]) -> list[str]:
    notes = []
    if without := [label for label in classes if label not in labels]:
        verb = "has no name and is" if len(without) == 1 else "have no name and are"
        notes.append(f"{some(without)} {verb} shown by id")
    if others := len(found) - len(labels):
        noun = "id of the file is no class" if others == 1 else "ids of the file are no classes"
        notes.append(f"{others:,} {noun} of the split")
    names = Counter(labels.values())
    if twice := sorted(name for name, count in names.items() if count > 1):
        notes.append(f"{some(twice)}: the name of several classes, which their ids tell apart")
    return notes
