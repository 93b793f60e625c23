"""The class map: common names for classes that were renamed, merged or split between OLD and NEW."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from mptctl.errors import DataError, UsageError
from mptctl.evaluation.flip_report import MappedClass
from mptctl.evaluation.reading.columns import first
from mptctl.evaluation.reading.predictions import Predictions
from mptctl.files import read_text
from mptctl.files.explained import shown

# Largest file in bytes: room for a quarter of a million classes.
MOST_BYTES = 2**24
WRITE = "write YAML, a line for each class: old: new, or old: [new, new]"


@dataclass(frozen=True)
class ClassMap:
    """The names that classes have in OLD and in NEW. A name that is not in the map stands for itself.

    Old names that became one new name are one class, under the new name. New names that one old name was
    split into are one class, under the old name. So classes that only one model tells apart count as one.

    Attributes:
        name: the file of the map, for messages.
        classes: every class of the map: its common name, and its names in OLD and in NEW.
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
        """Rename the classes of all models, given by role, to the common names.

        Raises:
            DataError: OLD or NEW does not know a name that the map has for it, or knows a class whose name
                the map gives to another class.
        """
        for role, names, others in (("old", self.old, self.new), ("new", self.new, self.old)):
            self._check_known(models[role], role, names, others)
        return {role: self.rename(role, model) for role, model in models.items()}

    def rename(self, role: str, model: Predictions) -> Predictions:
        """Rename the classes of one model to the common names.

        Predictions are in the model's own names. Labels of a predictions file are in the same names, or in
        those of the other model where the model has no such class. Labels of a checkpoint are the split's,
        which are NEW's names.
        """
        own, other = (self.old, self.new) if role == "old" else (self.new, self.old)
        # Of two mappings, the one that stands last decides where both have a name.
        labels = self.old | self.new if model.origin == "checkpoint" else other | own
        return _rename_model(model, labels, own)

    def rename_old_classes(self, names: Sequence[str]) -> list[str]:
        """Rename a user's list of old classes, in OLD's or in NEW's names, to the common names; each once."""
        either = self.new | self.old
        return list(dict.fromkeys(either.get(name, name) for name in names))

    def _check_known(
        self, model: Predictions, role: str, names: Mapping[str, str], others: Mapping[str, str]
    ) -> None:
        """Raise DataError where a model and its side of the map do not fit.

        Args:
            model: OLD or NEW.
            role: ``old`` or ``new``.
            names: the common name of each of the model's names in the map.
            others: the same of the other model's names.

        Raises:
            DataError: the model does not know one of these names, or it knows a class whose name the map
                gives to another class, or under which the other model knows another class.
        """
        answers = {*(model.classes or ()), *model.table.answers}
        known = answers | set(model.table.labels)
        if unknown := [name for name in names if name not in known]:
            close = difflib.get_close_matches(unknown[0][:60], [name[:60] for name in sorted(known)], 1)
            nearest = f"; nearest to the first: {shown(close[0])}" if close else ""
            raise DataError(
                f"--class-map {self.name}: {model.name} knows none of {len(unknown)} {role} names "
                f"({first(unknown)}){nearest}; correct them, or remove them"
            )
        common = {each.name for each in self.classes}
        if clash := sorted((answers & common) - names.keys()):
            raise DataError(
                f"--class-map {self.name}: {model.name} also knows {first(clash)}, which the map gives to "
                f"another class; say in it what becomes of {shown(clash[0])}"
            )
        # A label with this name could be either class.
        if clash := sorted((answers & others.keys()) - names.keys()):
            raise DataError(
                f"--class-map {self.name}: {model.name} knows {first(clash)}, which in the map is the other "
                f"model's name of another class; rename {shown(clash[0])} in one of the models' predictions"
            )


def read_class_map(path: Path) -> ClassMap:
    """Read a map: YAML of `old: new` or `old: [new, new]`.

    Raises:
        UsageError: the file cannot be read, is larger than `MOST_BYTES`, or is no map.
        DataError: the file is a device or FIFO.
    """
    from mptctl.files.yaml_text import read_yaml

    name = f"--class-map {path}"
    content = read_yaml(read_text(path, MOST_BYTES, name, WRITE, "name classes, not samples"), name)
    if not isinstance(content, dict):
        raise UsageError(f"{name}: must be a mapping; {WRITE}")
    pairs = list(dict.fromkeys(_pairs(name, content)))
    if not pairs:
        raise UsageError(f"{name}: names no class; {WRITE}")
    if any("" in names for names in pairs):
        raise UsageError(f"{name}: holds an empty name; {WRITE}")
    return ClassMap(str(path), _mapped_classes(str(path), pairs))


def _pairs(name: str, content: Mapping[object, object]) -> Iterator[tuple[str, str]]:
    """Yield every old name with each new one; UsageError, which begins with `name`, for anything else."""
    for old, others in content.items():
        for new in others if isinstance(others, list) else [others]:
            if not (isinstance(old, str) and isinstance(new, str)):
                raise UsageError(f"{name}: {shown(str(old))}: must be a name, or a list of names")
            yield old, new


def _mapped_classes(name: str, pairs: Sequence[tuple[str, str]]) -> list[MappedClass]:
    """Make the classes of a map from its pairs of an old and a new name.

    Args:
        name: the file of the map, for messages.
        pairs: every old name with a new name of the same class.

    Raises:
        UsageError: a name is both merged and split, or two classes would have one common name.
    """
    new_names: dict[str, list[str]] = {}
    old_names: dict[str, list[str]] = {}
    for old, new in pairs:
        new_names.setdefault(old, []).append(new)
        old_names.setdefault(new, []).append(old)
    classes: list[MappedClass] = []
    for old, names in new_names.items():
        if len(names) > 1:
            if tangled := [each for each in names if len(old_names[each]) > 1]:
                raise UsageError(
                    f"--class-map {name}: {shown(old)} is split, and {shown(tangled[0])}, one of "
                    "its parts, has other old names too; give each name to one merge or one split"
                )
            classes.append(MappedClass(name=old, old=[old], new=names))
            continue
        merged = old_names[names[0]]  # a class that was only renamed has one old name
        if merged[0] == old:  # each of its old names comes by here, and the first one makes the class
            classes.append(MappedClass(name=names[0], old=merged, new=names))
    common = Counter(each.name for each in classes)
    if twice := [each for each, count in common.items() if count > 1]:
        raise UsageError(
            f"--class-map {name}: {first(twice)} is split, and what another class becomes; give "
            "that another name in the predictions and in the map"
        )
    return classes


def _rename_model(model: Predictions, labels: Mapping[str, str], answers: Mapping[str, str]) -> Predictions:
    """Rename the labels and the answers of a model.

    Where classes become one, the logits are left out: the softmax over merged classes is not the model's.

    Args:
        model: the predictions.
        labels: new names of labels, by name; other names stay.
        answers: new names of predictions and classes, by name; other names stay.
    """
    table = replace(
        model.table,
        label_names=tuple(labels.get(name, name) for name in model.table.label_names),
        pred_names=tuple(answers.get(name, name) for name in model.table.pred_names),
    )
    if model.classes is None:
        return replace(model, table=table)
    names = [answers.get(name, name) for name in model.classes]
    classes = tuple(dict.fromkeys(names))
    logits = model.logits if len(classes) == len(names) else None
    return replace(model, table=table, logits=logits, classes=classes, counted=False)
