"""Reads readable names of classes whose ids are codes such as n01641577, and keeps them in split.json."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from mptctl.data.split import Split, save_split
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
        label, *rest = line.split(maxsplit=1) or [""]
        if not label:
            continue
        if not rest:
            raise UsageError(f"{where}: line {number}: {label!r} alone; write an id and a name a line")
        name = rest[0].strip()
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
        The name of each class by id, and notes on classes without a name, and on ids of no class.

    Raises:
        UsageError: no id is a class of the split.
    """
    labels = {label: names[label] for label in classes if names.get(label)}
    if not labels:
        raise UsageError(
            f"{FLAG} {path}: none of its {len(names):,} ids is a class of the split, such as "
            f"{some(classes, 1)}; write ids as split.json has them"
        )
    notes = []
    if without := [label for label in classes if label not in labels]:
        verb = "has no name and is" if len(without) == 1 else "have no name and are"
        notes.append(f"{some(without)} {verb} shown by id")
    if unknown := len(names) - len(labels):
        noun = "id of the file is no class" if unknown == 1 else "ids of the file are no classes"
        notes.append(f"{unknown:,} {noun} of the split")
    return labels, notes


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
