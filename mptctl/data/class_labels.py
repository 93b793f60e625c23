"""Reads readable names of classes whose ids are codes such as n01641577, and keeps them in split.json."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from mptctl.data.split import Split
from mptctl.errors import UsageError, some
from mptctl.files import read_text

FLAG = "--class-labels"
# Bytes of the file at most: room for a quarter of a million classes.
MOST_BYTES = 2**24


def read_class_labels(path: Path) -> dict[str, str]:
    """Read readable names of classes, by class id, from a file: in each line the id, a blank, and the name.

    Raises:
        UsageError: the file cannot be read or is too large, a line has no name, or an id has two names.
        DataError: the path is a device or FIFO.
    """
    where = f"{FLAG} {path}"
    text = read_text(path.expanduser(), MOST_BYTES, where, "write an id and a name a line")
    names: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split(maxsplit=1)
        if not words:
            continue
        label = words[0]
        if len(words) == 1:
            raise UsageError(f"{where}: line {number}: {label!r} alone; write an id and a name a line")
        name = words[1].strip()
        earlier_name = names.setdefault(label, name)
        if earlier_name != name:
            raise UsageError(
                f"{where}: line {number}: {label} has two names, {earlier_name!r} and {name!r}; keep one"
            )
    return names


def label_classes(split: Split, names: Mapping[str, str], path: Path) -> Split:
    """Return a split with readable names of its classes, in place of earlier ones.

    Args:
        split: the split.
        names: as `read_class_labels` returns them, perhaps with ids of other classes.
        path: the file of the names, for the message.

    Raises:
        UsageError: no id is a class of the split.
    """
    classes = split.classes.names
    labels = {label: names[label] for label in classes if label in names}
    if not labels:
        raise UsageError(
            f"{FLAG} {path}: none of its {len(names):,} ids is a class of the split, such as "
            f"{some(classes, 1)}; write ids as split.json has them"
        )
    return replace(split, file=split.file.model_copy(update={"class_labels": labels}))


def notes_on_class_labels(split: Split, names: Mapping[str, str]) -> list[str]:
    """Notes on the classes of a split that have no readable name, and on named ids of no class."""
    labels = split.file.class_labels or {}
    notes = []
    if without := [label for label in split.classes.names if label not in labels]:
        verb = "has no name and is" if len(without) == 1 else "have no name and are"
        notes.append(f"{some(without)} {verb} shown by id")
    if unknown := len(names) - len(labels):
        noun = "id of the file is no class" if unknown == 1 else "ids of the file are no classes"
        notes.append(f"{unknown:,} {noun} of the split")
    return notes
