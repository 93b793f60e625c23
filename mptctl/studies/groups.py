"""Groups of updates that differ in their seed alone: the rows of a table, and the notes on them."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Hashable, Sequence
from pathlib import Path
from typing import NamedTuple

from mptctl.errors import CheckpointError, UsageError
from mptctl.files.explained import nearest
from mptctl.names import METHOD_NAMES, Init
from mptctl.recipe import differences
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
        """Tells whether this is plain training from fresh weights; its work is the unit of training costs."""
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


def count_once(updates: Sequence[Update]) -> tuple[list[Update], list[str]]:
    """Leave out updates that are there twice; return the others, and a note on each that is left out.

    Two updates are one where their checkpoints are copies, where their kept predictions are equal under
    another name or seed, or where the same training was done twice, for instance with more threads.

    Raises:
        CheckpointError: splits differ in more than their seed, or splits of one seed differ; the message
            names two runs and the difference.
    """
    first_with: dict[tuple[str, ...], Update] = {}
    first_of_seed: dict[int, RunAnswers] = {}
    once: list[Update] = []
    notes: list[str] = []
    for update in updates:
        _refuse_other_split(update.run, updates[0].run, first_of_seed)
        identities = _identities(update)
        shared = next((identity for identity in identities if identity in first_with), None)
        if shared is not None:
            notes.append(f"{update.run.folder}: left out: {shared[0]} {first_with[shared].run.folder}")
            continue
        first_with |= dict.fromkeys(identities, update)
        once.append(update)
    return once, notes


def _refuse_other_split(run: RunAnswers, first: RunAnswers, first_of_seed: dict[int, RunAnswers]) -> None:
    """Refuse a run of another split than the first of all runs, and than the first of its seed.

    Raises:
        CheckpointError: as `count_once`.
    """
    head = run.head
    pairs = [
        *differences(first.head.request, head.request),
        ("old classes", first.head.num_old, head.num_old),
        ("classes", len(first.head.class_names), len(head.class_names)),
    ]
    reasons = [
        f"{name} {was} or {now}"
        for name, was, now in pairs
        if was != now and name not in ("seed", "data_root")
    ]
    other = first
    if not reasons:
        other = first_of_seed.setdefault(head.request.seed, run)
        if head.split_fingerprint != other.head.split_fingerprint:
            reasons = [f"other pictures or classes with split seed {head.request.seed}"]
    if reasons:
        raise CheckpointError(
            f"{run.folder}: is of another split than {other.folder} ({'; '.join(reasons)}); compare runs of "
            "one split"
        )


def _identities(update: Update) -> list[tuple[str, ...]]:
    """The ways to recognise an update; two updates that share one are the same.

    Each begins with the relation of the later update to the earlier one, as a verb phrase for a note, and
    then has the facts that both have in common.
    """
    run = update.run
    old = update.old.head.digest
    split = run.head.split_fingerprint
    settings = settings_of(run)
    training = json.dumps([split, run.head.teachers, run.recipe.runtime.seed])
    return [
        ("is the model of", run.head.digest, split, old),
        ("has the weights of", settings, answers_digest(run)),
        ("is the same training (split, seed, settings, teachers) as", settings, training, old),
    ]


def group_updates(updates: Sequence[Update]) -> list[Group]:
    """Group updates that differ in their seed alone, in the order of methods and names.

    The updates of a group have the same settings, by `settings_of`, and old models of the same settings. Two
    updates of the same settings, split and seed, for instance with two references, are put into groups by the
    names of their runs, or else by their folders.

    Args:
        updates: each counted once.
    """
    same_settings = _divide(updates, lambda update: (settings_of(update.run), settings_of(update.old)))
    groups = _name_apart([_make_group(row) for same in same_settings for row in _one_a_seed(same)])
    return sorted(groups, key=_order_in_table)


def _study_of(run: Path) -> Path:
    """The folder of a study, in which each seed has a folder with its runs; else the folder with the run."""
    parent = run.absolute().parent
    return parent.parent if parent.name.isdecimal() else parent


def _order_in_table(group: Group) -> tuple[int, str]:
    """A key by which groups stand in the order of methods, one's own behind ours, and of names."""
    is_ours = group.method in METHOD_NAMES
    return METHOD_NAMES.index(group.method) if is_ours else len(METHOD_NAMES), group.name


def _divide(updates: Sequence[Update], key: Callable[[Update], Hashable]) -> list[list[Update]]:
    """Divide updates into parts of equal keys, in the order in which the keys come first."""
    parts: dict[Hashable, list[Update]] = {}
    for update in updates:
        parts.setdefault(key(update), []).append(update)
    return list(parts.values())


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


def _make_group(updates: Sequence[Update]) -> Group:
    """Make a row, ordered by seed and named by its runs where all have one name, else by their training."""
    names = {update.run.folder.name for update in updates}
    method = updates[0].run.recipe.method
    name = name_of_training(method.name, method.init)
    # The name `no-treatment` is kept for plain training from fresh weights.
    if len(names) == 1 and (names != {PLAIN} or method.init == "fresh"):
        [name] = names
    by_seed = sorted(
        updates, key=lambda update: (update.run.recipe.runtime.seed, update.run.head.request.seed)
    )
    return Group(name, method.name, by_seed)


def _name_apart(groups: list[Group]) -> list[Group]:
    """Append endings to the names of groups until no two groups share a name.

    An ending is of the first update of a group: its run's name, the name of its study, or its folder. It is
    appended where groups of one name have different ones; names that are still shared get the next ending.
    """
    endings: tuple[Callable[[Path], Path | str], ...] = (
        lambda run: run.name,
        lambda run: _study_of(run).name,
        lambda run: run.parent,
    )
    for ending in endings:
        endings_of: dict[str, set[str]] = {}
        for group in groups:
            endings_of.setdefault(group.name, set()).add(str(ending(group.updates[0].run.folder)))
        groups = [
            group._replace(name=f"{group.name} ({ending(group.updates[0].run.folder)})")
            if len(endings_of[group.name]) > 1
            else group
            for group in groups
        ]
    return groups


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
        copies_of: dict[str, set[str]] = {}
        for update in group.updates:
            # A copy of a plugin is NAME-DIGEST.py.
            for copy in (update.run.folder / "plugins").glob("*-*.py"):
                copies_of.setdefault(copy.name.rpartition("-")[0], set()).add(copy.name)
        for name, copies in copies_of.items():
            if len(copies) > 1:
                notes.append(
                    f"{group.name}: was trained by different texts of {name}.py: {', '.join(sorted(copies))} "
                    "in the folders `plugins` of its runs"
                )
    return notes


def plain_by_replicate(groups: Sequence[Group]) -> dict[tuple[str, int], Update]:
    """The plain update of each split and seed; its own work is the unit of training costs for this seed.

    All have the settings of one row: the first plain row from fresh weights or, if there is none, the row
    from the old weights with the least work.
    """
    plain_rows = [group for group in groups if group.is_plain]
    if not plain_rows:
        from_old = [group for group in groups if group.method == PLAIN and group.init == "old"]
        plain_rows = sorted(from_old, key=lambda group: group.updates[0].run.head.work.own or math.inf)
    updates = [update for group in plain_rows for update in group.updates]
    plain: dict[tuple[str, int], Update] = {}
    for update in updates:
        if settings_of(update.run) == settings_of(updates[0].run):
            plain.setdefault(update.replicate, update)
    return plain


def refuse_unknown_row(flag: str, name: str, names: Sequence[str]) -> None:
    """Refuse a name, given by a flag, that no row has.

    Raises:
        UsageError: ``name`` is not in ``names``; the message lists the rows that shared it until
            `group_updates` named them apart, or else suggests the nearest one.
    """
    if name in names:
        return
    shared = [each for each in dict.fromkeys(names) if each.startswith(f"{name} (")]
    if shared:
        raise UsageError(
            f"{flag} {name}: {len(shared)} rows of other settings have that name; give one in full: "
            f"{', '.join(shared)}"
        )
    raise UsageError(f"{flag} {name}: no such row{nearest(name, names)}")


def find_row(flag: str, name: str, groups: Sequence[Group]) -> Group:
    """Find the row of a name, given by a flag.

    Raises:
        UsageError: see `refuse_unknown_row`.
    """
    refuse_unknown_row(flag, name, [group.name for group in groups])
    return next(group for group in groups if group.name == name)
