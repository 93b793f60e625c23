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
    seen: dict[int, RunAnswers] = {}
    for update in updates:
        run = update.run
        mine, theirs = _split_key(run), _split_key(first)
        twin = seen.setdefault(run.head.request.seed, run)
        differs = [f"{key} {theirs[key]} or {mine[key]}" for key in mine if mine[key] != theirs[key]]
        if not differs and run.head.split_fingerprint != twin.head.split_fingerprint:
            first, differs = twin, [f"other pictures or classes with split seed {run.head.request.seed}"]
        if differs:
            raise CheckpointError(
                f"{run.folder}: is of another split than {first.folder} ({'; '.join(differs)}); compare runs "
                "of one split, or group them with --by split"
            )


def count_once(updates: Sequence[Update], by: By) -> tuple[list[Update], list[str]]:
    """Each run once against each old model on a split, and notes on folders that hold a run again.

    A run is there again as a copy of its checkpoint; as equal weights that bear another name or seed, which
    all that is kept of their answers tells; and as the same training done twice, on other threads for
    instance.
    """
    seen: dict[tuple[str, ...], Update] = {}
    once, notes = [], []
    for update in updates:
        head, settings, old = update.run.head, settings_of(update.run), update.old.head.digest
        digest = answers_digest(update.run) + (head.split_fingerprint if by == "split" else "")
        copy = ("copy", head.digest, head.split_fingerprint, old)
        weights = ("weights", settings, digest, update.old_name or "")
        seeded = json.dumps([head.split_fingerprint, head.teachers, update.run.recipe.runtime.seed])
        training = ("training", settings, seeded, old)
        same = {
            copy: "is the model of",
            weights: "has the weights of",
            training: "is the same training (split, seed, settings, teachers) as",
        }
        again = next((key for key in same if key in seen), None)
        if again is not None:
            notes.append(f"{update.run.folder}: left out: {same[again]} {seen[again].run.folder}")
            continue
        seen.update(dict.fromkeys(same, update))
        once.append(update)
    return once, notes


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
    """Updates of one setting, those of other old models apart: of another setting, or two of one split."""
    olds: dict[tuple[str, int], set[str]] = {}
    for update in updates:
        split = (update.run.head.split_fingerprint, update.run.head.request.seed)
        olds.setdefault(split, set()).add(update.old.head.digest)
    one_each = all(len(digests) == 1 for digests in olds.values())
    parts: dict[str, list[Update]] = {}
    for update in updates:
        key = settings_of(update.old) if one_each else update.old.head.digest
        parts.setdefault(key, []).append(update)
    return list(parts.values())


def _titles(parts: Sequence[Sequence[Update]]) -> list[str]:
    """Names of rows of one setting: their runs' or method's, and where two are alike, old model or folder."""
    titles = []
    for updates in parts:
        names = {update.run.folder.name for update in updates}
        titles.append(names.pop() if len(names) == 1 else updates[0].run.recipe.method.name)
    for end in (_old_model, _folder):
        ends: dict[str, set[str]] = {}
        for title, part in zip(titles, parts, strict=True):
            ends.setdefault(title, set()).add(end(part))
        titles = [
            title + end(part) if len(ends[title]) > 1 else title
            for title, part in zip(titles, parts, strict=True)
        ]
    return titles


def _folder(updates: Sequence[Update]) -> str:
    return f", {updates[0].run.folder.parent}"


def _old_model(updates: Sequence[Update]) -> str:
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


def several_old_models(groups: Sequence[Group]) -> list[str]:
    """A note on rows of one setting that stand apart since they replace other old models."""
    names = [group.name for group in groups if group.name.endswith(_old_model(group.updates))]
    if not names:
        return []
    return [f"{'; '.join(names)}: runs that replace other old models are no seeds of one row"]


def missing_seeds(groups: Sequence[Group]) -> list[str]:
    """A note on rows of fewer seeds than others."""
    every = {update.replicate for group in groups for update in group.updates}
    short = [f"{group.name} {len(group.updates)}" for group in groups if len(group.updates) < len(every)]
    if not short:
        return []
    return [f"of {len(every)} seeds some rows have fewer, and are not called the best: {', '.join(short)}"]


def _split_labels(updates: Sequence[Update]) -> dict[str, str]:
    """Names of the splits where several stand in one table, by their fingerprints.

    Splits that differ in their seed alone have one name.
    """
    runs = {update.run.head.split_fingerprint: update.run for update in updates}
    kinds: dict[str, list[RunAnswers]] = {}
    for run in runs.values():
        kinds.setdefault(json.dumps(_split_key(run), sort_keys=True), []).append(run)
    named = {run.head.split_fingerprint: _split_name(run) for run in runs.values()}
    for kind, members in kinds.items():
        alone = len({run.head.request.seed for run in members}) == len(members)
        like = [key for key, others in kinds.items() if _split_name(others[0]) == _split_name(members[0])]
        differs = sorted(
            key for key in json.loads(kind) if len({json.dumps(json.loads(each)[key]) for each in like}) > 1
        )
        for run in members:
            more = [f"{key} {_split_key(run)[key]}" for key in differs]
            more += [] if alone else [run.head.split_fingerprint[:8]]
            named[run.head.split_fingerprint] += "".join(f", {text}" for text in more)
    return named


def _split_name(run: RunAnswers) -> str:
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
