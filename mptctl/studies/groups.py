"""Groups of updates that differ in their seed alone: the rows of a table, and the notes on them."""

from __future__ import annotations

import json
from collections.abc import Sequence
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
    alike: dict[str, list[Update]] = {}
    for update in updates:
        alike.setdefault(settings_of(update.run), []).append(update)
    groups = []
    for members in alike.values():
        parts = [part for same_old in _by_old_model(members) for part in _one_a_seed(same_old)]
        for name, part in zip(_name_rows(parts), parts, strict=True):
            part.sort(key=lambda update: (update.run.recipe.runtime.seed, update.run.head.request.seed))
            groups.append(Group(name, part[0].run.recipe.method.name, part))
    return sorted(_name_apart(groups), key=lambda group: (METHOD_NAMES.index(group.method), group.name))


def _by_old_model(updates: Sequence[Update]) -> list[list[Update]]:
    """Divide updates of the same settings by their old models.

    Where each split has one old model, old models of the same settings count as one. Where a split has two,
    each old model has a part of its own.
    """
    old_models: dict[tuple[str, int], set[str]] = {}
    for update in updates:
        split = (update.run.head.split_fingerprint, update.run.head.request.seed)
        old_models.setdefault(split, set()).add(update.old.head.digest)
    one_a_split = all(len(digests) == 1 for digests in old_models.values())
    parts: dict[str, list[Update]] = {}
    for update in updates:
        kind = settings_of(update.old) if one_a_split else update.old.head.digest
        parts.setdefault(kind, []).append(update)
    return list(parts.values())


def _name_rows(parts: Sequence[Sequence[Update]]) -> list[str]:
    """The names of rows of the same settings; equal ones end in their old model, or else in their folder."""
    titles = [_name_of_row(updates) for updates in parts]
    with_old_models = _with_endings(titles, [_old_model_ending(updates) for updates in parts])
    return _with_endings(with_old_models, [f", {updates[0].run.folder.parent}" for updates in parts])


def _name_apart(groups: Sequence[Group]) -> list[Group]:
    """Add to equal names of rows the name of their first run, or else its folder."""
    folders = [group.updates[0].run.folder for group in groups]
    names = _with_endings([group.name for group in groups], [f" ({folder.name})" for folder in folders])
    names = _with_endings(names, [f" ({folder.parent})" for folder in folders])
    return [group._replace(name=name) for group, name in zip(groups, names, strict=True)]


def _name_of_row(updates: Sequence[Update]) -> str:
    """The name that all runs share, or else that of their training; never that of a fresh plain one."""
    name, method = updates[0].run.folder.name, updates[0].run.recipe.method
    all_have_it = all(update.run.folder.name == name for update in updates)
    is_ambiguous = name == PLAIN and method.init != "fresh"
    return name if all_have_it and not is_ambiguous else name_of_training(method.name, method.init)


def _with_endings(titles: Sequence[str], endings: Sequence[str]) -> list[str]:
    """Append to each title that several rows share its ending, unless their endings are all the same too."""
    endings_of: dict[str, set[str]] = {title: set() for title in titles}
    for title, ending in zip(titles, endings, strict=True):
        endings_of[title].add(ending)
    return [
        title + ending if len(endings_of[title]) > 1 else title
        for title, ending in zip(titles, endings, strict=True)
    ]


def _old_model_ending(updates: Sequence[Update]) -> str:
    """The end of the name of a row whose settings another row shares, with another old model."""
    old = updates[0].old
    return f", old {old.folder.name} {old.head.digest[:8]}"


def _one_a_seed(updates: Sequence[Update]) -> list[list[Update]]:
    """Divide updates so that no part has a seed twice: not at all, else by name of run, else each alone."""
    if not _has_seed_twice(updates):
        return [list(updates)]
    by_name: dict[str, list[Update]] = {}
    for update in updates:
        by_name.setdefault(update.run.folder.name, []).append(update)
    parts = []
    for same_name in by_name.values():
        parts += [[update] for update in same_name] if _has_seed_twice(same_name) else [same_name]
    return parts


def _has_seed_twice(updates: Sequence[Update]) -> bool:
    """Tells whether two updates have the same split and seed."""
    return len({update.replicate for update in updates}) < len(updates)


def notes_on_old_models(groups: Sequence[Group]) -> list[str]:
    """A note on rows of the same settings that replace different old models; no note where there are none."""
    names = [group.name for group in groups if _old_model_ending(group.updates) in group.name]
    if not names:
        return []
    return [f"{'; '.join(names)}: runs that replace other old models are no seeds of one row"]


def notes_on_missing_seeds(groups: Sequence[Group]) -> list[str]:
    """A note on the rows that lack some of the seeds; none where no row does."""
    seeds = {update.replicate for group in groups for update in group.updates}
    short = [f"{group.name} {len(group.updates)}" for group in groups if len(group.updates) < len(seeds)]
    if not short:
        return []
    return [f"of {len(seeds)} seeds some rows have fewer, and are not called the best: {', '.join(short)}"]


def plain_by_replicate(groups: Sequence[Group]) -> dict[tuple[str, int], Update]:
    """The plain update of each split and seed in whose own work costs are counted, all of one setting.

    Of plain rows with other settings, such as more epochs, the first gives the unit.
    """
    plain_rows = [group for group in groups if group.is_plain]
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


def row_of_name(groups: Sequence[Group], name: str) -> Group | None:
    """Find the row of a name; None where there is no such row."""
    return next((group for group in groups if group.name == name), None)
