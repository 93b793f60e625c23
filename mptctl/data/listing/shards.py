"""Lists the pictures of tar shards with their labels (webdataset's form)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from mptctl.data.listing.labelled_rows import (
    ANY,
    LabelledRows,
    LabelText,
    classify_rows,
    label_as_text,
    read_class_names,
)
from mptctl.data.listing.listing import Listing, Shard
from mptctl.data.listing.patterns import find_part_words, list_files
from mptctl.data.listing.tar_members import DamagedTar, Member, read_members
from mptctl.data.picture_kinds import EXTENSIONS
from mptctl.errors import DataError, some
from mptctl.names import Progress, tell_nobody

# The text beside a picture. It is a label only where `--label-key .txt` says so, since img2dataset writes
# captions there.
TEXT_KEY = ".txt"
_DEFAULT_KEY, _CLASS, _JSON = "label", ".cls", ".json"
_SUFFIXES = frozenset(suffix[1:] for suffix in EXTENSIONS)


class _Sample(NamedTuple):
    """A picture of a shard: name, offset and bytes, label, its .json's fields, and what is wrong with it."""

    name: str
    start: int
    size: int = 0
    label: str = ""
    fields: Mapping[str, Any] = {}
    problem: str | None = None


def list_shards(
    place: str,
    root: Path,
    label_key: str | None,
    progress: Progress = tell_nobody,
    *,
    labelled: bool = True,
) -> Listing:
    """List the pictures of shards with their labels, in the order of the shards, without reading a picture.

    Members whose names are the same up to the first dot are one sample. Its label is in ``.cls``, else in
    ``.json`` under ``label``; further fields of the ``.json`` are further columns. A sample without label or
    picture and a damaged shard become rows with a problem.

    Args:
        place: the shards; see `list_files`.
        root: folder that the shards are below.
        label_key: key of the label in each ``.json``, or `TEXT_KEY`; None: ``.cls`` or ``label``.
        progress: shows how many shards are done.
        labelled: False ignores labels and parts, and makes all pictures one class.

    Raises:
        DataError: see `list_files`, `find_part_words` and `classify_rows`, or a shard cannot be read.
    """
    paths = list_files(place, ".tar")
    names = [os.path.relpath(path, root) for path in paths]
    words = find_part_words(names, place) if labelled else []
    shards: list[Shard] = []
    shard_rows: list[int] = []
    samples: list[_Sample] = []
    for number, path in enumerate(paths):
        try:
            with open(path, "rb", buffering=0) as file:
                stat = os.fstat(file.fileno())
                shards.append(Shard(names[number], stat.st_size, stat.st_mtime_ns))
                found = [*_list_samples(file.fileno(), shards[-1], label_key, labelled)]
        except OSError as error:
            raise DataError(f"{path}: cannot be read ({error.strerror}); check its permissions") from error
        samples += found
        shard_rows += [number] * len(found)
        progress("listing shards", number + 1, len(paths))
    fields = dict.fromkeys(name for sample in samples for name in sample.fields)
    fields.pop(label_key or _DEFAULT_KEY, None)
    rows = LabelledRows(
        ids=[sample.name for sample in samples],
        labels=[sample.label for sample in samples] if labelled else [ANY] * len(samples),
        parts=[words[number] for number in shard_rows] if any(words) else [],
        where=lambda row: f"{paths[shard_rows[row]]}: offset {samples[row].start:,}: {samples[row].name}",
        problems={row: sample.problem for row, sample in enumerate(samples) if sample.problem is not None},
        ids_in_parts=labelled,
    )
    columns: dict[str, list[Any]] = {
        "path": rows.ids,
        "shard": shard_rows,
        "start": [sample.start for sample in samples],
        "size": [sample.size for sample in samples],
    }
    further = {name: [sample.fields.get(name) for sample in samples] for name in fields}
    known = read_class_names(root) if labelled else None
    class_names, table = classify_rows(rows, known, place, columns, further)
    return Listing("webdataset", root, class_names, table, tuple(shards))


def _list_samples(descriptor: int, shard: Shard, label_key: str | None, labelled: bool) -> Iterator[_Sample]:
    """Yield the samples of one open shard, and last one with a problem where the shard is damaged."""
    samples, damage = _collect_samples(read_members(descriptor, shard.size))
    for sample in samples:
        pictures = [sample[suffix] for suffix in sample if suffix.rpartition(".")[2] in _SUFFIXES]
        if len(pictures) != 1:
            names = some([picture.name for picture in pictures])
            problem = f"has several pictures: {names}" if pictures else "has no picture beside it"
            first = next(iter(sample.values()))
            yield _Sample(first.name, first.start, problem=problem)
            continue
        (picture,) = pictures
        fields = _read_fields(descriptor, sample)
        label = _find_label(descriptor, sample, fields, label_key) if labelled else LabelText(ANY)
        yield _Sample(picture.name, picture.start, picture.size, label.text, fields, label.problem)
    if damage is not None:
        yield _Sample(f"{shard.path}@{damage.offset}", damage.offset, problem=damage.problem)


def _collect_samples(members: Iterable[Member]) -> tuple[list[dict[str, Member]], DamagedTar | None]:
    """Group the members of a shard into samples. A member a second time begins another sample of its key.

    Returns:
        The members of each sample by suffix, and the damage at which the list of members ended, if any.
    """
    samples: list[dict[str, Member]] = []
    latest: dict[str, dict[str, Member]] = {}
    damage: DamagedTar | None = None
    try:
        for member in members:
            if member.name.rpartition("/")[2].startswith("._"):  # what macOS adds beside each file
                continue
            key = sample_key_of(member.name)
            suffix = member.name.removeprefix(key).lower()
            if key not in latest or suffix in latest[key]:
                latest[key] = {}
                samples.append(latest[key])
            latest[key][suffix] = member
    except DamagedTar as error:
        damage = error
    return samples, damage


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
) -> LabelText:
    """Find the label of a sample.

    Args:
        descriptor: descriptor of the open shard.
        sample: its members, by suffix.
        fields: fields of its .json.
        label_key: see `list_shards`.
    """
    suffix: str | None  # of a member that is the label
    field: str | None  # of the .json
    if label_key is None:
        suffix, field = _CLASS, _DEFAULT_KEY
    elif label_key == TEXT_KEY:
        suffix, field = TEXT_KEY, None
    else:
        suffix, field = None, label_key
    if suffix is not None and suffix in sample:
        try:
            return LabelText(_read_content(descriptor, sample[suffix]).decode().strip())
        except UnicodeDecodeError:
            return LabelText("", f"its {suffix} is not UTF-8")
    if field is not None and field in fields:
        label = label_as_text(fields[field])
        return label._replace(text=label.text.strip())
    wanted = f"{_CLASS} and no {_DEFAULT_KEY} in a {_JSON}" if label_key is None else label_key
    return LabelText("", f"has no label beside it: no {wanted}")
