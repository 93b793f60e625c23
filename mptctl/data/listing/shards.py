"""Lists the pictures of tar shards with their labels (webdataset's form)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mptctl.data.listing.labelled_rows import ANY, LabelledRows
from mptctl.data.listing.patterns import find_part_words, list_files
from mptctl.data.listing.tar_members import DamagedTar, Member, read_indexed_members, read_members
from mptctl.data.picture_kinds import EXTENSIONS
from mptctl.errors import DataError, some
from mptctl.names import Progress, tell_nobody

# The text beside a picture. It is a label only where `--label-key .txt` says so, since img2dataset writes
# captions there.
TEXT_KEY = ".txt"
_DEFAULT_KEY, _CLASS, _JSON = "label", ".cls", ".json"
_SUFFIXES = frozenset(suffix[1:] for suffix in EXTENSIONS)


@dataclass
class ShardedPictures:
    """The pictures of tar shards, in the order of the shards.

    Attributes:
        rows: ids, labels and parts.
        paths: path of each shard, relative to the root.
        sizes, mtimes: bytes of each shard, and nanoseconds of its last change.
        shard_rows: index into ``paths``, one for each picture.
        starts, lengths: offset and number of bytes of each picture within its shard.
        further: further fields of the .json files, by name: one value for each picture, None where a picture
            has none.
    """

    rows: LabelledRows
    paths: list[str]
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
) -> ShardedPictures:
    """List the pictures of shards with their labels, without reading a picture.

    Members whose names are the same up to the first dot are one sample. Its label is in ``.cls``, else in
    ``.json`` under ``label``. An ``.idx`` file beside a shard saves reading every header. A sample without
    label or picture and a damaged shard become rows with a problem.

    Args:
        place: the shards, as of `list_files`.
        root: folder that the shards are below.
        label_key: key of the label in each ``.json``, or `TEXT_KEY`; None: ``.cls`` or ``label``.
        progress: told how many shards are done.
        labelled: False ignores labels and parts, and makes all pictures one class.

    Raises:
        DataError: as of `list_files` and `find_part_words`, or a shard cannot be read.
    """
    paths = list_files(place, ".tar")
    names = [os.path.relpath(path, root) for path in paths]
    parts = find_part_words(names, place) if labelled else []
    places: list[str] = []
    rows = LabelledRows([], [], [], places.__getitem__, ids_in_parts=labelled)
    shards = ShardedPictures(rows, names)
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
    path: Path, number: int, shards: ShardedPictures, places: list[str], label_key: str | None, labelled: bool
) -> None:
    """Add the samples of one shard to ``shards`` and their places to ``places``.

    Args:
        path: the shard.
        number: its index in ``shards.paths``.
        shards: gets a row for each sample, and one with a problem where the shard is damaged.
        places: gets the place of each row, for messages.
        label_key, labelled: as of `read_shards`.
    """

    def add_row(name: str, label: str, start: int, size: int, problem: str | None) -> None:
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
        samples, damage = _collect_samples(_list_members(path, descriptor, stat))
        for sample in samples:
            pictures = [sample[suffix] for suffix in sample if suffix.rpartition(".")[2] in _SUFFIXES]
            if len(pictures) != 1:
                names = some([picture.name for picture in pictures])
                count_problem = f"has several pictures: {names}" if pictures else "has no picture beside it"
                first = next(iter(sample.values()))
                add_row(first.name, "", first.start, 0, count_problem)
                continue
            fields = _read_fields(descriptor, sample)
            label, problem = _find_label(descriptor, sample, fields, label_key) if labelled else (ANY, None)
            (picture,) = pictures
            for name in {*shards.further, *fields} - {label_key or _DEFAULT_KEY}:
                column = shards.further.setdefault(name, [])
                column += [None] * (len(shards.rows.ids) - len(column)) + [fields.get(name)]
            add_row(picture.name, label, picture.start, picture.size, problem)
        if damage is not None:
            add_row(f"{shards.paths[number]}@{damage.offset}", "", damage.offset, 0, damage.problem)


def _collect_samples(members: Iterable[Member]) -> tuple[list[dict[str, Member]], DamagedTar | None]:
    """Group the members of a shard into samples.

    Returns:
        The members of each sample by suffix, and the damage at which the list of members ended, if any.
    """
    samples: dict[str, dict[str, Member]] = {}
    damage: DamagedTar | None = None
    try:
        for member in members:
            key = sample_key_of(member.name)
            suffix = member.name.removeprefix(key).lower()
            samples.setdefault(key, {})[suffix] = member
    except DamagedTar as error:
        damage = error
    return list(samples.values()), damage


def sample_key_of(name: str) -> str:
    """Return the key of a member's sample: its path up to the first dot of the file's name.

    >>> sample_key_of("train/v1.0/cat.small.jpg")
    'train/v1.0/cat'
    """
    folder, slash, file = name.rpartition("/")
    return folder + slash + file.partition(".")[0]


def _read_content(descriptor: int, member: Member) -> bytes:
    """Return the bytes of a member; they are read unless they came along with the header."""
    return os.pread(descriptor, member.size, member.start) if member.content is None else member.content


def _read_fields(descriptor: int, sample: Mapping[str, Member]) -> dict[str, Any]:
    """Read the fields of a sample's .json that are texts or numbers; {} without a JSON object."""
    if _JSON not in sample:
        return {}
    try:
        parsed = json.loads(_read_content(descriptor, sample[_JSON]))
    except ValueError:
        return {}
    if not isinstance(parsed, dict):
        return {}
    return {key: value for key, value in parsed.items() if isinstance(value, str | int | float)}


def _find_label(
    descriptor: int, sample: Mapping[str, Member], fields: Mapping[str, Any], label_key: str | None
) -> tuple[str, str | None]:
    """Find the label of a sample.

    Args:
        descriptor: descriptor of the open shard.
        sample: its members, by suffix.
        fields: fields of its .json.
        label_key: as of `read_shards`.

    Returns:
        The label and None, or "" and what is wrong.
    """
    text_suffix = _CLASS if label_key is None else label_key
    if label_key in (None, TEXT_KEY) and text_suffix in sample:
        try:
            return _read_content(descriptor, sample[text_suffix]).decode().strip(), None
        except UnicodeDecodeError:
            return "", f"its {text_suffix} is not UTF-8"
    field = label_key or _DEFAULT_KEY
    if label_key != TEXT_KEY and field in fields:
        return str(fields[field]).strip(), None
    wanted = f"{_CLASS} and no {_DEFAULT_KEY} in a {_JSON}" if label_key is None else label_key
    return "", f"has no label beside it: no {wanted}"


def _list_members(path: Path, descriptor: int, stat: os.stat_result) -> Iterable[Member]:
    """List the members of a shard, by the index beside it where that fits, else by the headers."""
    try:
        index = path.with_suffix(".idx").read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return read_members(descriptor, stat.st_size)
    indexed = read_indexed_members(descriptor, stat.st_size, index)
    return read_members(descriptor, stat.st_size) if indexed is None else indexed
