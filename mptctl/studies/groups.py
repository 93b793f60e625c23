"""Updates that differ in their seed alone, put together; and which splits may stand in one table."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import NamedTuple

from mptctl.data.split_file import SplitRequest
from mptctl.errors import CheckpointError
from mptctl.names import METHOD_NAMES
from mptctl.recipe import may_change_between_starts
from mptctl.studies.answers import RunAnswers
from mptctl.studies.comparison import By
from mptctl.studies.updates import Update

PLAIN = "no-treatment"
# Keys of a recipe's runtime with which a run of another value is another row.
MORE_THAN_ROUNDING = ("precision", "teacher_precision", "sync_batchnorm")


class Group(NamedTuple):
    """Runs that differ in their seed alone.

    Attributes:
        name, method: of the runs.
        section: what its section of the table is about: a split, or an old model; None where the table has one.
        updates: one a seed.
    """

    name: str
    method: str
    section: str | None
    updates: list[Update]

    @property
    def is_plain(self) -> bool:
        """Whether it is what costs are counted in: plain training from fresh weights."""
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
                f"{run.folder}: is of another split than {first.folder} ({'; '.join(differs)}); compare runs of one "
                "split, or group them with --by split"
            )


def group_updates(updates: Sequence[Update], by: By) -> list[Group]:
    """Put together what differs in its seed alone, in the order of the table of methods.

    Settings are the whole recipe, of `runtime` only what changes more than rounding, and how many teachers there are.
    Two runs of the same settings, split and seed, as with two references, are told apart by their names.
    """
    alike: dict[tuple[str | None, str], list[Update]] = {}
    labels = _split_labels(updates) if by == "split" else {}
    for update in updates:
        section = update.old_name or labels.get(update.run.head.split_fingerprint)
        alike.setdefault((section, _settings(update.run)), []).append(update)
    groups = []
    for (section, _), members in alike.items():
        named: dict[str, list[Update]] = {}
        twice = len({m.replicate for m in members}) < len(members)
        for member in members:
            named.setdefault(member.run.folder.name if twice else "", []).append(member)
        for several in named.values():
            method = several[0].run.recipe.method.name
            names = {m.run.folder.name for m in several}
            several.sort(key=lambda m: (m.run.recipe.runtime.seed, m.run.head.request.seed))
            groups.append(Group(names.pop() if len(names) == 1 else method, method, section, several))
    order = {name: i for i, name in enumerate(METHOD_NAMES)}
    sections = list(dict.fromkeys(group.section for group in groups))
    if by == "split":
        sections.sort(key=lambda section: section or "")
    return sorted(groups, key=lambda g: (sections.index(g.section), order[g.method], g.name))


def missing_seeds(groups: Sequence[Group]) -> list[str]:
    """Which rows are of fewer seeds than others."""
    every = {update.replicate for group in groups for update in group.updates}
    short = [f"{group.name} {len(group.updates)}" for group in groups if len(group.updates) < len(every)]
    if not short:
        return []
    return [f"of {len(every)} seeds some rows have fewer, and are not called the best: {', '.join(short)}"]


def _split_labels(updates: Sequence[Update]) -> dict[str, str]:
    """What the splits are called where several stand in one table, by their fingerprints.

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


def _settings(run: RunAnswers) -> str:
    recipe = run.recipe.model_dump(mode="json")
    free = may_change_between_starts()
    recipe["runtime"] = {key: recipe["runtime"][key] for key in MORE_THAN_ROUNDING}
    recipe["data"] = {key: value for key, value in recipe["data"].items() if f"data.{key}" not in free}
    return json.dumps([recipe, len(run.head.teachers)], sort_keys=True)
