"""Groups of updates that differ in their seed alone: the rows of a table, and the notes on them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import NamedTuple

from mptctl.data.split_file import SplitRequest
from mptctl.errors import CheckpointError, UsageError
from mptctl.files.explained import nearest
from mptctl.names import METHOD_NAMES, Init
from mptctl.studies.answers_file import RunAnswers, answers_digest, settings_of
from mptctl.studies.updates import Update

PLAIN = "no-treatment"
# Names of weights to begin with, in names of rows.
INIT_NAMES: dict[Init, str] = {"fresh": "fresh", "old": "old", "ref": "reference's"}


class Group(NamedTuple):
    """A row of the table: updates that differ in their seed alone.

    Attributes:
        name: of the row.
        method: of the runs.
        updates: one for each seed.
    """

    name: str
    method: str
    updates: list[Update]

    @property
    def is_plain(self) -> bool:
        """Tells whether this is plain training from fresh weights, in whose work costs are counted."""
        return self.method == PLAIN and self.init == "fresh"

    @property
    def init(self) -> Init:
        """The weights that the updates began with."""
        return self.updates[0].run.recipe.method.init

    @property
    def seeds(self) -> set[tuple[str, int]]:
        """Split and seed of each update; see `Update.replicate`."""
        return {update.replicate for update in self.updates}


def name_of_training(method: str, init: Init) -> str:
    """The name of a method that begins with given weights, such as ``plain from the old weights``."""
    if init == "fresh":
        return method
    return f"{'plain' if method == PLAIN else method} from the {INIT_NAMES[init]} weights"


def refuse_other_splits(updates: Sequence[Update]) -> None:
    """Refuse runs whose splits differ in more than their seed.

    Raises:
        CheckpointError: splits differ in another setting, or splits of one seed differ; the message names two
            runs and the difference.
    """
    first = updates[0].run
    expected = _split_settings(first)
    first_of_seed: dict[int, RunAnswers] = {}
    for run in [update.run for update in updates]:
        settings, seed = _split_settings(run), run.head.request.seed
        differences = [
            f"{name} {expected[name]} or {value}"
            for name, value in settings.items()
            if value != expected[name]
        ]
        if differences:
            raise _error_of_other_split(run, first, "; ".join(differences))
        same_seed = first_of_seed.setdefault(seed, run)
        if run.head.split_fingerprint != same_seed.head.split_fingerprint:
            raise _error_of_other_split(run, same_seed, f"other pictures or classes with split seed {seed}")


def _error_of_other_split(run: RunAnswers, other: RunAnswers, difference: str) -> CheckpointError:
    """The error that two runs are of different splits."""
    return CheckpointError(
        f"{run.folder}: is of another split than {other.folder} ({difference}); compare runs of one split"
    )


def count_once(updates: Sequence[Update]) -> tuple[list[Update], list[str]]:
    """Leave out updates that are there twice; return the others, and a note on each that is left out.

    Two updates are one where their checkpoints are copies, where their kept predictions are equal under
    another name or seed, or where the same training was done twice, for instance with more threads.
    """
    first_with: dict[_Identity, Update] = {}
    once, notes = [], []
    for update in updates:
        identities = _identities(update)
        shared = [identity for identity in identities if identity in first_with]
        if shared:
            first = first_with[shared[0]].run.folder
            notes.append(f"{update.run.folder}: left out: {shared[0].relation} {first}")
            continue
        for identity in identities:
            first_with[identity] = update
        once.append(update)
    return once, notes


class _Identity(NamedTuple):
    """One way to recognise an update; two updates that share an identity are the same.

    Attributes:
        relation: of the later update to the earlier one, as a verb phrase for a note.
        facts: that both have in common.
    """

    relation: str
    facts: tuple[str, ...]


def _identities(update: Update) -> list[_Identity]:
    """The identities of an update, by which `count_once` finds it again."""
    run, old = update.run, update.old.head.digest
    split, settings = run.head.split_fingerprint, settings_of(run)
    training = json.dumps([split, run.head.teachers, run.recipe.runtime.seed])
    return [
        _Identity("is the model of", (run.head.digest, split, old)),
        _Identity("has the weights of", (settings, answers_digest(run))),
        _Identity(
            "is the same training (split, seed, settings, teachers) as",
            (settings, training, old),
        ),
    ]


def group_updates(updates: Sequence[Update]) -> list[Group]:
    """Group updates that differ in their seed alone, in the order of methods and names.

    The updates of a group have the same settings, by `settings_of`, and old models of the same settings; on
    one split they replace one old model. Two updates of the same settings, split and seed, for instance with
    two references, are put into groups by the names of their runs, or else by their folders.

    Args:
        updates: each counted once.
    """
    rows, names = list[list[Update]](), list[str]()
    for alike in _divide(updates, lambda update: settings_of(update.run)):
        parts = [part for same_old in _by_old_model(alike) for part in _one_a_seed(same_old)]
        titles = [_name_of_row(part) for part in parts]
        names += _name_apart(parts, titles, _old_model_ending, lambda update: f", {update.run.folder.parent}")
        rows += parts
    for row in rows:
        row.sort(key=lambda update: (update.run.recipe.runtime.seed, update.run.head.request.seed))
    names = _name_apart(
        rows,
        names,
        lambda update: f" ({update.run.folder.name})",
        lambda update: f" ({_study_of(update).name})",
        lambda update: f" ({update.run.folder.parent})",
    )
    groups = [Group(name, row[0].run.recipe.method.name, row) for name, row in zip(names, rows, strict=True)]
    return sorted(groups, key=lambda group: (_place_of_method(group.method), group.name))


def _study_of(update: Update) -> Path:
    """The folder of the study of an update, or of its runs where it lies in no folder of a seed."""
    parent = update.run.folder.absolute().parent
    return parent.parent if parent.name.isdecimal() else parent


def _place_of_method(method: str) -> int:
    """The place of a method in the table; one's own stand behind ours."""
    return METHOD_NAMES.index(method) if method in METHOD_NAMES else len(METHOD_NAMES)


def _divide(updates: Sequence[Update], key: Callable[[Update], Hashable]) -> list[list[Update]]:
    """Divide updates into parts of equal keys, in the order in which the keys come first."""
    parts: dict[Hashable, list[Update]] = {}
    for update in updates:
        parts.setdefault(key(update), []).append(update)
    return list(parts.values())


def _by_old_model(updates: Sequence[Update]) -> list[list[Update]]:
    """Divide updates of the same settings by their old models.

    Where each split has one old model, old models of the same settings count as one. Where a split has two,
    each old model has a part of its own.
    """
    of_splits = _divide(
        updates, lambda update: (update.run.head.split_fingerprint, update.run.head.request.seed)
    )
    if all(len({update.old.head.digest for update in split}) == 1 for split in of_splits):
        return _divide(updates, lambda update: settings_of(update.old))
    return _divide(updates, lambda update: update.old.head.digest)


def _one_a_seed(updates: Sequence[Update]) -> list[list[Update]]:
    """Divide updates so that no part has a seed twice: not at all, else by name of run, else each alone."""
    if not _has_seed_twice(updates):
        return [list(updates)]
    parts = []
    for same_name in _divide(updates, lambda update: update.run.folder.name):
        parts += [[update] for update in same_name] if _has_seed_twice(same_name) else [same_name]
    return parts


def _has_seed_twice(updates: Sequence[Update]) -> bool:
    """Tells whether two updates have the same split and seed."""
    return len({update.replicate for update in updates}) < len(updates)


def _name_of_row(updates: Sequence[Update]) -> str:
    """The name that all runs share, or else that of their training; never that of a fresh plain one."""
    name, method = updates[0].run.folder.name, updates[0].run.recipe.method
    all_have_it = all(update.run.folder.name == name for update in updates)
    is_ambiguous = name == PLAIN and method.init != "fresh"
    return name if all_have_it and not is_ambiguous else name_of_training(method.name, method.init)


def _name_apart(
    rows: Sequence[Sequence[Update]], names: Sequence[str], *endings: Callable[[Update], str]
) -> list[str]:
    """Append to names that several rows share an ending of their first update; then likewise the next ending.

    Rows whose endings are all the same keep their common name.
    """
    named = list(names)
    for ending in endings:
        endings_of: dict[str, set[str]] = {}
        for name, row in zip(named, rows, strict=True):
            endings_of.setdefault(name, set()).add(ending(row[0]))
        named = [
            name + ending(row[0]) if len(endings_of[name]) > 1 else name
            for name, row in zip(named, rows, strict=True)
        ]
    return named


def _old_model_ending(update: Update) -> str:
    """The end of the name of a row whose settings another row shares, with another old model."""
    return f", old {update.old.folder.name} {update.old.head.digest[:8]}"


def notes_on_old_models(groups: Sequence[Group]) -> list[str]:
    """A note on rows of the same settings that replace different old models; no note where there are none."""
    names = [group.name for group in groups if _old_model_ending(group.updates[0]) in group.name]
    if not names:
        return []
    return [f"{'; '.join(names)}: runs that replace other old models are no seeds of one row"]


def notes_on_missing_seeds(groups: Sequence[Group]) -> list[str]:
    """A note on the rows that lack some of the seeds; none where no row does."""
    seeds = {seed for group in groups for seed in group.seeds}
    short = [f"{group.name} {len(group.updates)}" for group in groups if len(group.updates) < len(seeds)]
    if not short:
        return []
    return [f"of {len(seeds)} seeds some rows have fewer, and are not called the best: {', '.join(short)}"]


def notes_on_plugins(groups: Sequence[Group]) -> list[str]:
    """A note on each row whose runs were trained by different texts of a plugin; none where none was."""
    notes = []
    for group in groups:
        texts: dict[str, set[str]] = {}
        for update in group.updates:
            for copy in (update.run.folder / "plugins").glob("*-*.py"):
                texts.setdefault(copy.name.rpartition("-")[0], set()).add(copy.name)
        notes += [
            f"{group.name}: was trained by different texts of {name}.py: {', '.join(sorted(copies))} in the "
            "folders `plugins` of its runs"
            for name, copies in texts.items()
            if len(copies) > 1
        ]
    return notes


def plain_by_replicate(groups: Sequence[Group]) -> dict[tuple[str, int], Update]:
    """The plain update of each split and seed in whose own work costs are counted, all of one setting.

    Of plain rows with other settings, such as more epochs, the first gives the unit. Without a plain row from
    fresh weights it is the shortest one from the old weights, whose training is as much work.
    """
    plain_rows = [group for group in groups if group.is_plain]
    if not plain_rows:
        from_old = [group for group in groups if group.method == PLAIN and group.init == "old"]
        plain_rows = sorted(from_old, key=lambda group: group.updates[0].run.head.work.own or math.inf)
    plain: dict[tuple[str, int], Update] = {}
    for group in plain_rows:
        if settings_of(group.updates[0].run) == settings_of(plain_rows[0].updates[0].run):
            for update in group.updates:
                plain.setdefault(update.replicate, update)
    return plain


def notes_on_units_of_cost(groups: Sequence[Group], found: Sequence[Group]) -> list[str]:
    """A note on rows with seeds that have no plain update, whose costs have another unit; none otherwise.

    Args:
        groups: the rows that are shown.
        found: all rows, also those that are not shown, since no shift brings them to a common error.
    """
    plain = plain_by_replicate(found)
    names, seeds = list[str](), set[int]()
    for group in groups:
        without = {u.run.recipe.runtime.seed for u in group.updates if u.replicate not in plain}
        if without:
            names.append(group.name)
            seeds |= without
    if not names:
        return []
    plain_name = next((group.name for group in found if group.is_plain), PLAIN)
    return [
        f"cost 1 of {', '.join(names)} is the row's own training without teachers, since no plain training "
        f"({plain_name}) of seed {', '.join(map(str, sorted(seeds)))} is among these runs; name that too"
    ]


def _split_settings(run: RunAnswers) -> dict[str, object]:
    """The settings of a split without its seed and data root, and its numbers of classes."""
    head, request = run.head, run.head.request
    settings = {
        name: getattr(request, name)
        for name in SplitRequest.model_fields
        if name not in ("seed", "data_root")
    }
    return settings | {"old classes": head.num_old, "classes": len(head.class_names)}


def refuse_unknown_row(flag: str, name: str, names: Sequence[str]) -> None:
    """Refuse a name, given by a flag, that no row has.

    Raises:
        UsageError: ``name`` is not in ``names``; the message lists the rows that shared it until
            `group_updates` named them apart, or else suggests the nearest one.
    """
    shared = [each for each in dict.fromkeys(names) if each.startswith(f"{name} (")]
    if name not in names and shared:
        raise UsageError(
            f"{flag} {name}: {len(shared)} rows of other settings have that name; give one in full: "
            f"{', '.join(shared)}"
        )
    if name not in names:
        raise UsageError(f"{flag} {name}: no such row{nearest(name, names)}")


def find_row(flag: str, name: str, groups: Sequence[Group]) -> Group:
    """Find the row of a name, given by a flag.

    Raises:
        UsageError: see `refuse_unknown_row`.
    """
    refuse_unknown_row(flag, name, [group.name for group in groups])
    return next(group for group in groups if group.name == name)
