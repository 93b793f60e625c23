"""Tar shards: the pictures in them with their labels (webdataset's form)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mptctl.data.listing.labelled_rows import ANY, LabelledRows
from mptctl.data.listing.patterns import find_files, parts_in_names
from mptctl.data.listing.tar_members import Damage, Member, indexed_members, members
from mptctl.data.picture_kinds import EXTENSIONS
from mptctl.errors import DataError, some
from mptctl.names import Progress, tell_nobody

# The text beside a picture, which is a label only where that is said: img2dataset keeps captions so.
TEXT_KEY = ".txt"
_DEFAULT_KEY, _CLASS, _JSON = "label", ".cls", ".json"
_SUFFIXES = frozenset(suffix[1:] for suffix in EXTENSIONS)


@dataclass
class Shards:
    """The pictures of tar shards, in the order of the shards.

    Attributes:
        rows: ids, labels and parts.
        shards: paths below the root.
        sizes, mtimes: of the shards.
        shard_rows: index into ``shards`` of each picture.
        starts, lengths: of each picture within its shard, in bytes.
        further: by name, the other fields of the .json files, one value for each picture, None where one has
            none; shorter than the rows where the last ones have none.
    """

    rows: LabelledRows
    shards: list[str]
    sizes: list[int] = field(default_factory=list)
    mtimes: list[int] = field(default_factory=list)
    shard_rows: list[int] = field(default_factory=list)
    starts: list[int] = field(default_factory=list)
    lengths: list[int] = field(default_factory=list)
    further: dict[str, list[Any]] = field(default_factory=dict)


def read_shards(
    place: str,
    root: Path,
    label_key: str | None,
    progress: Progress = tell_nobody,
    *,
    labelled: bool = True,
) -> Shards:
    """List the pictures of shards with their labels, without reading a picture.

    Members whose names are the same up to the first dot are one sample. Its label is in ``.cls``, else in
    ``.json`` under ``label``. An ``.idx`` file beside a shard saves reading every header.

    Args:
        place: as for `find_files`.
        root: folder that the shards are below.
        label_key: key of the label in each ``.json``, or `TEXT_KEY`; None for the default.
        progress: told how many shards are done.
        labelled: without it labels and parts are not looked at, and all pictures are of one class.

    Raises:
        DataError: as of `find_files` and `parts_in_names`, or a shard that cannot be read.
    """
    paths = find_files(place, ".tar")
    names = [os.path.relpath(path, root) for path in paths]
    parts = parts_in_names(names, place) if labelled else []
    places: list[str] = []
    rows = LabelledRows([], [], [], places.__getitem__, ids_in_parts=labelled)
    shards = Shards(rows, names)
    for number, path in enumerate(paths):
        try:
            _read_shard(path, number, shards, places, label_key, labelled)
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
        if any(parts):
            rows.parts += [parts[number]] * (len(rows.ids) - len(rows.parts))
        progress("listing shards", number + 1, len(paths))
    for column in shards.further.values():
        column += [None] * (len(rows.ids) - len(column))
    return shards


def _read_shard(
    path: Path, number: int, shards: Shards, places: list[str], label_key: str | None, labelled: bool
) -> None:
    """Add the pictures of one shard; a sample or shard that is damaged becomes a row with a problem."""

    def add(name: str, label: str, start: int, size: int, problem: str | None) -> None:
        row = len(shards.rows.ids)
        shards.rows.ids.append(name)
        shards.rows.labels.append(label)
        shards.shard_rows.append(number)
        shards.starts.append(start)
        shards.lengths.append(size)
        places.append(f"{path}: offset {start:,}: {name}")
        if problem is not None:
            shards.rows.problems[row] = problem

    with open(path, "rb", buffering=0) as file:
        descriptor, stat = file.fileno(), os.fstat(file.fileno())
        shards.sizes.append(stat.st_size)
        shards.mtimes.append(stat.st_mtime_ns)
        damage: Damage | None = None
        samples: dict[str, dict[str, Member]] = {}
        try:
            for member in _members(path, descriptor, stat):
                key = key_of(member.name)
                samples.setdefault(key, {})[member.name.removeprefix(key).lower()] = member
        except Damage as error:
            damage = error
        for sample in samples.values():
            pictures = [sample[suffix] for suffix in sample if suffix.rpartition(".")[2] in _SUFFIXES]
            if len(pictures) != 1:
                names = some([each.name for each in pictures])
                problem = f"has several pictures: {names}" if pictures else "has no picture beside it"
                first = next(iter(sample.values()))
                add(first.name, "", first.start, 0, problem)
                continue
            fields = _fields(descriptor, sample)
            label, missing = _label(descriptor, sample, fields, label_key) if labelled else (ANY, None)
            (place,) = pictures
            for name in {*shards.further, *fields} - {label_key or _DEFAULT_KEY}:
                column = shards.further.setdefault(name, [])
                column += [None] * (len(shards.rows.ids) - len(column)) + [fields.get(name)]
            add(place.name, label, place.start, place.size, missing)
        if damage is not None:
            add(f"{shards.shards[number]}@{damage.offset}", "", damage.offset, 0, damage.problem)


def key_of(name: str) -> str:
    """The key of a sample: a member's path up to the first dot of the file's name.

    >>> key_of("train/v1.0/cat.small.jpg")
    'train/v1.0/cat'
    """
    folder, slash, file = name.rpartition("/")
    return folder + slash + file.partition(".")[0]


def _content(descriptor: int, member: Member) -> bytes:
    return os.pread(descriptor, member.size, member.start) if member.content is None else member.content


def _fields(descriptor: int, sample: Mapping[str, Member]) -> dict[str, Any]:
    """The text and numbers in a sample's .json; empty where there is none, or it holds no object."""
    if _JSON not in sample:
        return {}
    try:
        found = json.loads(_content(descriptor, sample[_JSON]))
    except ValueError:
        return {}
    if not isinstance(found, dict):
        return {}
    return {key: value for key, value in found.items() if isinstance(value, str | int | float)}


def _label(
    descriptor: int, sample: Mapping[str, Member], fields: Mapping[str, Any], label_key: str | None
) -> tuple[str, str | None]:
    """The label of a picture and None, or "" and the problem with it."""
    text = TEXT_KEY if label_key == TEXT_KEY else _CLASS if label_key is None else ""
    if text in sample:
        try:
            return _content(descriptor, sample[text]).decode().strip(), None
        except UnicodeDecodeError:
            return "", f"its {text} is not UTF-8"
    if label_key != TEXT_KEY and (label_key or _DEFAULT_KEY) in fields:
        return str(fields[label_key or _DEFAULT_KEY]).strip(), None
    wanted = f"{_CLASS} and no {_DEFAULT_KEY} in a {_JSON}" if label_key is None else label_key
    return "", f"has no label beside it: no {wanted}"


def _members(path: Path, descriptor: int, stat: os.stat_result) -> Iterable[Member]:
    """The members of a shard, by the index beside it where that fits."""
    try:
        index = path.with_suffix(".idx").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return members(descriptor, stat.st_size)
    found = indexed_members(descriptor, stat.st_size, index)
    return members(descriptor, stat.st_size) if found is None else found
