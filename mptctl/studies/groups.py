"""Updates that differ in their seed alone, put together; and which splits may stand in one table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from mptctl.data.split_file import SplitRequest
from mptctl.errors import CheckpointError, UsageError
from mptctl.files.explained import nearest
from mptctl.names import METHOD_NAMES
from mptctl.studies.answers_file import RunAnswers, answers_digest, settings_of
from mptctl.studies.comparison import By
from mptctl.studies.updates import Update

PLAIN = "no-treatment"


class Group(NamedTuple):
    """Runs that differ in their seed alone.

    Attributes:
        name, method: of the runs.
        section: what its section of the table is about: a split, or an old model; None where the table has
            one.
        updates: one a seed.
    """

    name: str
    method: str
    section: str | None
    updates: list[Update]

    @property
    def is_plain(self) -> bool:
        """Says if costs are counted in it: plain training from fresh weights."""
        return self.method == PLAIN and self.updates[0].run.recipe.method.init == "fresh"


def refuse_other_splits(updates: Sequence[Update]) -> None:
    """Refuse runs whose splits differ in more than their seed.

    Raises:
        CheckpointError: names two of them and what differs.
    """
    first = updates[0].run
    wanted = _split_key(first)
    first_of_seed: dict[int, RunAnswers] = {}
    for run in [update.run for update in updates]:
        key, seed = _split_key(run), run.head.request.seed
        differs = [f"{name} {wanted[name]} or {key[name]}" for name in key if key[name] != wanted[name]]
        if differs:
            raise _of_another_split(run, first, "; ".join(differs))
        same_seed = first_of_seed.setdefault(seed, run)
        if run.head.split_fingerprint != same_seed.head.split_fingerprint:
            raise _of_another_split(run, same_seed, f"other pictures or classes with split seed {seed}")


def _of_another_split(run: RunAnswers, other: RunAnswers, difference: str) -> CheckpointError:
    return CheckpointError(
        f"{run.folder}: is of another split than {other.folder} ({difference}); compare runs of one split, "
        "or group them with --by split"
    )


def count_once(updates: Sequence[Update], by: By) -> tuple[list[Update], list[str]]:
    """Each run once against each old model on a split, and notes on folders that hold a run again.

    A run is there again as a copy of its checkpoint; as equal weights that bear another name or seed, which
    all that is kept of their answers tells; and as the same training done twice, on other threads for
    instance.
    """
    counted: dict[_Identity, Update] = {}
    once, notes = [], []
    for update in updates:
        identities = _identities(update, by)
        again = next((identity for identity in identities if identity in counted), None)
        if again is not None:
            notes.append(f"{update.run.folder}: left out: {again.means} {counted[again].run.folder}")
            continue
        for identity in identities:
            counted[identity] = update
        once.append(update)
    return once, notes


class _Identity(NamedTuple):
    """A way in which two updates are the same one: where all of it is equal.

    Attributes:
        means: what the later one is to the earlier one, as a verb.
        facts: that are equal.
    """

    means: str
    facts: tuple[str, ...]


def _identities(update: Update, by: By) -> list[_Identity]:
    """The ways in which `count_once` knows an update again."""
    run, old = update.run, update.old.head.digest
    split, settings = run.head.split_fingerprint, settings_of(run)
    weights = (settings, answers_digest(run), split if by == "split" else "", update.old_name or "")
    training = json.dumps([split, run.head.teachers, run.recipe.runtime.seed])
    return [
        _Identity("is the model of", (run.head.digest, split, old)),
        _Identity("has the weights of", weights),
        _Identity(
            "is the same training (split, seed, settings, teachers) as",
            (settings, training, old),
        ),
    ]


def group_updates(updates: Sequence[Update], by: By) -> list[Group]:
    """Put together what differs in its seed alone, in the order of the table of methods.

    Settings are the whole recipe, of `runtime` only what changes more than rounding, how many teachers there
    are, and the recipe of the old model. On one split runs of one row replace one old model. Two runs of the
    same settings, split and seed, as with two references, are told apart by their names, or else by their
    folders.
    """
    alike: dict[tuple[str | None, str], list[Update]] = {}
    labels = _split_labels(updates) if by == "split" else {}
    for update in updates:
        section = update.old_name or labels.get(update.run.head.split_fingerprint)
        alike.setdefault((section, settings_of(update.run)), []).append(update)
    groups = []
    for (section, _), members in alike.items():
        parts = [part for one_old in _by_old_model(members) for part in _told_apart(one_old)]
        for name, several in zip(_titles(parts), parts, strict=True):
            several.sort(key=lambda m: (m.run.recipe.runtime.seed, m.run.head.request.seed))
            groups.append(Group(name, several[0].run.recipe.method.name, section, several))
    sections = list(dict.fromkeys(group.section for group in groups))
    if by == "split":
        sections.sort(key=lambda section: section or "")
    return sorted(groups, key=lambda g: (sections.index(g.section), METHOD_NAMES.index(g.method), g.name))


def _by_old_model(updates: Sequence[Update]) -> list[list[Update]]:
    """Updates of one setting, in a part for each kind of old model.

    Where each split has one old model, old models of the same settings are of one kind: they differ as their
    splits do. Where a split has two, each old model is a kind of its own.
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


def _titles(parts: Sequence[Sequence[Update]]) -> list[str]:
    """Names of rows of one setting: their runs' or method's, and where two are alike, old model or folder."""
    titles = [_name_of_row(updates) for updates in parts]
    with_old_models = _with_endings(titles, [_old_model_ending(updates) for updates in parts])
    return _with_endings(with_old_models, [f", {updates[0].run.folder.parent}" for updates in parts])


def _name_of_row(updates: Sequence[Update]) -> str:
    """The name that all runs have, or else that of their method."""
    name = updates[0].run.folder.name
    all_have_it = all(update.run.folder.name == name for update in updates)
    return name if all_have_it else updates[0].run.recipe.method.name


def _with_endings(titles: Sequence[str], endings: Sequence[str]) -> list[str]:
    """The titles, those with their ending that several rows have and that their endings tell apart."""
    endings_of: dict[str, set[str]] = {title: set() for title in titles}
    for title, ending in zip(titles, endings, strict=True):
        endings_of[title].add(ending)
    return [
        title + ending if len(endings_of[title]) > 1 else title
        for title, ending in zip(titles, endings, strict=True)
    ]


def _old_model_ending(updates: Sequence[Update]) -> str:
    """The end of a row's name that tells it from a row of the same setting and another old model."""
    old = updates[0].old
    return f", old {old.folder.name} {old.head.digest[:8]}"


def _told_apart(updates: Sequence[Update]) -> list[list[Update]]:
    """Updates of a row, one a seed: all together, else those of each name, else each folder by itself."""
    if not _seed_twice(updates):
        return [list(updates)]
    named: dict[str, list[Update]] = {}
    for update in updates:
        named.setdefault(update.run.folder.name, []).append(update)
    parts = []
    for several in named.values():
        parts += [[update] for update in several] if _seed_twice(several) else [several]
    return parts


def _seed_twice(updates: Sequence[Update]) -> bool:
    return len({update.replicate for update in updates}) < len(updates)


def notes_on_old_models(groups: Sequence[Group]) -> list[str]:
    """A note on rows of one setting that stand apart since they replace other old models."""
    names = [group.name for group in groups if group.name.endswith(_old_model_ending(group.updates))]
    if not names:
        return []
    return [f"{'; '.join(names)}: runs that replace other old models are no seeds of one row"]


def notes_on_missing_seeds(groups: Sequence[Group]) -> list[str]:
    """A note on rows of fewer seeds than others."""
    every = {update.replicate for group in groups for update in group.updates}
    short = [f"{group.name} {len(group.updates)}" for group in groups if len(group.updates) < len(every)]
    if not short:
        return []
    return [f"of {len(every)} seeds some rows have fewer, and are not called the best: {', '.join(short)}"]


def _split_labels(updates: Sequence[Update]) -> dict[str, str]:
    """Names of the splits where several stand in one table, by their fingerprints.

    Splits that differ in their seed alone have one name. To the names of others that sound alike is added in
    what they differ, and to those of splits that nothing tells apart, not even their seed, the fingerprint.
    """
    splits = {update.run.head.split_fingerprint: update.run for update in updates}
    labels = {}
    for fingerprint, run in splits.items():
        key = _split_key(run)
        alike = [other for other in splits.values() if _split_name(other) == _split_name(run)]
        differs = [
            name for name in sorted(key) if any(_split_key(other)[name] != key[name] for other in alike)
        ]
        parts = [_split_name(run), *(f"{name} {key[name]}" for name in differs)]
        seeds = [other.head.request.seed for other in alike if _split_key(other) == key]
        if len(set(seeds)) < len(seeds):
            parts.append(fingerprint[:8])
        labels[fingerprint] = ", ".join(parts)
    return labels


def _split_name(run: RunAnswers) -> str:
    """The source of a split and its number of old classes, which several splits may share."""
    head = run.head
    return f"{head.request.source}, {head.num_old} of {len(head.class_names)} classes old"


def _split_key(run: RunAnswers) -> dict[str, object]:
    """All of a split but its seed."""
    head, request = run.head, run.head.request
    key = {
        name: getattr(request, name)
        for name in SplitRequest.model_fields
        if name not in ("seed", "data_root")
    }
    return key | {"old classes": head.num_old, "classes": len(head.class_names)}


def refuse_unknown_row(flag: str, name: str, names: Sequence[str]) -> None:
    """Refuse a name that no row has.

    Raises:
        UsageError: names the nearest one.
    """
    if name not in names:
        raise UsageError(f"{flag} {name}: no such row{nearest(name, names)}")


def row_of_name(flag: str, groups: Sequence[Group], name: str) -> Group | None:
    """The row of a section that has a name; None where the section has no such row.

    Args:
        flag: that named it.
        groups: of one section of the table.
        name: of the row.

    Raises:
        UsageError: several rows have that name.
    """
    named = [group for group in groups if group.name == name]
    if len(named) > 1:
        folders = ", ".join(str(group.updates[0].run.folder) for group in named)
        raise UsageError(
            f"{flag} {name}: {len(named)} rows of other settings have that name ({folders}); name folders "
            "that hold one of them"
        )
    return named[0] if named else None
