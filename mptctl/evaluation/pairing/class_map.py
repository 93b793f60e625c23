"""Classes that were renamed, merged or split between OLD and NEW: both models read under common names."""

from __future__ import annotations

import difflib
import weakref
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import DataError, StorageError, UsageError
from mptctl.evaluation.flip_report import MappedClass
from mptctl.evaluation.reading.columns import first
from mptctl.evaluation.reading.name_pairs import pairs_relation, read_pairs
from mptctl.evaluation.reading.predictions import Predictions, row_blocks
from mptctl.evaluation.reading.table import ArrayTable, FileTable, Table
from mptctl.evaluation.reading.workspace import current, free_memory, shown_size
from mptctl.files.explained import shown

# Models that speak the names of OLD; all others speak those of NEW.
OLD_ROLES = frozenset({"old", "noise_floor"})


@dataclass(frozen=True)
class ClassMap:
    """The names that classes have in OLD and in NEW. A name that is not in it stands for itself.

    Several old names of one new name are one class, under the new name; several new names of one old name are
    one class, under the old name. So each model is asked only what both can tell apart, and right is right in
    that.

    Attributes:
        name: of the file, for messages.
        classes: every class of the map: its common name, and what it is called by either model.
    """

    name: str
    classes: list[MappedClass]

    @cached_property
    def old(self) -> dict[str, str]:
        """Common name by OLD's name."""
        return {name: each.name for each in self.classes for name in each.old}

    @cached_property
    def new(self) -> dict[str, str]:
        """Common name by NEW's name."""
        return {name: each.name for each in self.classes for name in each.new}

    def apply(self, models: Mapping[str, Predictions]) -> dict[str, Predictions]:
        """Models by role under common names.

        Labels of a file are in its model's names, or in the other one's where its model knows no such class.
        Those of a checkpoint are the split's, which are NEW's.

        Raises:
            DataError: a name of the map that its model does not know, or one that would fall together with
                another class without a word of it in the map.
            StorageError: logits that are to be merged do not fit into memory.
        """
        for role, here in (("old", self.old), ("new", self.new)):
            self._check_known(models[role], role, here)
        return {role: self.rename(role, model) for role, model in models.items()}

    def rename(self, role: str, model: Predictions) -> Predictions:
        """A model under common names; StorageError as `applied`."""
        own, other = (self.old, self.new) if role in OLD_ROLES else (self.new, self.old)
        labels = self.old | self.new if model.origin == "checkpoint" else other | own
        return _renamed(model, labels, own)

    def rename_old_classes(self, names: Sequence[str]) -> list[str]:
        """Old classes that a person named, in OLD's names or in NEW's, under common names."""
        either = self.new | self.old
        return list(dict.fromkeys(either.get(name, name) for name in names))

    def _check_known(self, model: Predictions, role: str, here: Mapping[str, str]) -> None:
        answers = {*(model.classes or ()), *model.table.answers}
        known = answers | set(model.table.labels)
        if unknown := [name for name in here if name not in known]:
            close = difflib.get_close_matches(unknown[0][:60], [name[:60] for name in sorted(known)], 1)
            nearest = f"; nearest to the first: {shown(close[0])}" if close else ""
            raise DataError(
                f"--class-map {self.name}: {model.name} knows none of {len(unknown)} {role} names "
                f"({first(unknown)}){nearest}; correct them, or remove them"
            )
        common = {each.name for each in self.classes}
        if clash := sorted((answers & common) - here.keys()):
            raise DataError(
                f"--class-map {self.name}: {model.name} also knows {first(clash)}, which the map gives to "
                f"another class; say in it what becomes of {shown(clash[0])}"
            )


def read_class_map(path: Path) -> ClassMap:
    """Read a map: ``.yaml`` of `old: new` or `old: [new, new]`, or ``.csv`` with the columns `old` and `new`.

    Raises:
        UsageError: another ending, a file that cannot be read, or what is no map.
    """
    pairs = read_pairs(path, "--class-map", ("old", "new"))
    return ClassMap(str(path), _mapped_classes(str(path), pairs))


def _mapped_classes(name: str, pairs: Sequence[tuple[str, str]]) -> list[MappedClass]:
    """Every class of the map: its common name, and what it is called by either model.

    Raises:
        UsageError: a name that is both merged and split, or that two classes would have in common.
    """
    after: dict[str, list[str]] = {}
    before: dict[str, list[str]] = {}
    for old, new in pairs:
        after.setdefault(old, []).append(new)
        before.setdefault(new, []).append(old)
    found: list[MappedClass] = []
    for old, names in after.items():
        if len(names) > 1:
            if tangled := [each for each in names if len(before[each]) > 1]:
                raise UsageError(
                    f"--class-map {name}: {shown(old)} is split, and {shown(tangled[0])}, one of "
                    "its parts, has other old names too; give each name to one merge or one split"
                )
            found.append(MappedClass(name=old, old=[old], new=names))
        elif before[names[0]][0] == old:
            found.append(MappedClass(name=names[0], old=before[names[0]], new=names))
    common = Counter(each.name for each in found)
    if twice := [each for each, count in common.items() if count > 1]:
        raise UsageError(
            f"--class-map {name}: {first(twice)} is split, and what another class becomes; give "
            "that another name in the predictions and in the map"
        )
    return found


def _renamed(model: Predictions, labels: Mapping[str, str], answers: Mapping[str, str]) -> Predictions:
    """A model under other names of labels and answers; of classes that become one the largest logit stays."""
    table = _renamed_table(model.table, labels, answers)
    if model.classes is None:
        return replace(model, table=table)
    names = [answers.get(name, name) for name in model.classes]
    classes = tuple(dict.fromkeys(names))
    logits = model.logits
    if logits is not None and len(classes) < len(names):
        place = {name: i for i, name in enumerate(classes)}
        logits = _merged(logits, [place[name] for name in names], len(classes), model.name)
    return Predictions(model.name, table, logits, classes, model.origin)


def _merged(logits: NDArray[Any], places: Sequence[int], width: int, name: str) -> NDArray[Any]:
    """(N, width): the largest of the columns that go to each place."""
    size = len(logits) * width * logits.dtype.itemsize
    if size > free_memory():
        raise StorageError(
            f"--class-map: the logits of {name}, {shown_size(size)} when merged, do not fit into memory; "
            "leave them out (`pred` alone), or compare fewer samples"
        )
    found = np.full((len(logits), width), -np.inf, dtype=logits.dtype)
    for rows in row_blocks(logits):
        block = np.asarray(logits[rows])
        for column, place in enumerate(places):
            np.maximum(found[rows, place], block[:, column], out=found[rows, place])
    return found


def _renamed_table(table: Table, labels: Mapping[str, str], answers: Mapping[str, str]) -> Table:
    if isinstance(table, ArrayTable):
        return ArrayTable(
            table.ids,
            _rename_values(table.truth, labels),
            _rename_values(table.preds, answers),
            table.id_kind,
        )
    work, sides = current(), [pairs_relation(labels), pairs_relation(answers)]
    source = (
        f"(SELECT t.row, t.id, coalesce(l.common, t.label) AS label, coalesce(p.common, t.pred) AS pred "
        f"FROM {table.source} AS t LEFT JOIN {sides[0]} AS l ON l.name = t.label "
        f"LEFT JOIN {sides[1]} AS p ON p.name = t.pred)"
    )
    made = _RenamedTable(
        source,
        table.rows,
        table.id_kind,
        _rename_counts(table.labels, labels),
        _rename_counts(table.answers, answers),
        table.sample,
        table.files,
        table,
    )
    for side in sides:
        weakref.finalize(made, work.drop_later, f"DROP VIEW IF EXISTS {side}")
    return made


@dataclass(frozen=True, eq=False)
class _RenamedTable(FileTable):
    """A table under other names; it keeps the one that it is made of."""

    original: FileTable


def _rename_values(values: NDArray[np.str_], names: Mapping[str, str]) -> NDArray[np.str_]:
    kinds, place = np.unique(values, return_inverse=True)
    return np.array([names.get(name, name) for name in kinds.tolist()], dtype=np.str_)[place]


def _rename_counts(counts: Counter[str], names: Mapping[str, str]) -> Counter[str]:
    found: Counter[str] = Counter()
    for name, count in counts.items():
        found[names.get(name, name)] += count
    return Counter(dict(sorted(found.items())))
