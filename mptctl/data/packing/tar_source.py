"""Tar shards as webdataset and img2dataset lay them out, as `pack` reads them."""

from __future__ import annotations

import hashlib
import json
import os
import tarfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple

from mptctl.data.listing.image_folder import BadPictures
from mptctl.data.packing.column_source import part_of_file, row_problems
from mptctl.data.packing.copy_form import CLASSES_NAME, has_suffix
from mptctl.data.packing.shard_writer import key_of
from mptctl.data.packing.source import CHUNK, Original, PackSource, Reading
from mptctl.errors import DataError, one_line, some

_LABEL = "label"


class ShardPicture(NamedTuple):
    """A picture of a shard: its name, place, and label; "" where it has none."""

    name: str
    path: Path
    start: int
    size: int
    label: str


@dataclass(frozen=True, eq=False, kw_only=True)
class TarSource(PackSource):
    """Pictures in tar shards.

    Attributes:
        pictures: in the order of the shards.
    """

    pictures: list[ShardPicture]

    def where(self, row: int) -> str:
        """The shard, the byte in it, and the name."""
        picture = self.pictures[row]
        return f"{picture.path}: offset {picture.start}: {picture.name}"

    def readings(self, rows: Sequence[int]) -> Iterator[list[Reading]]:
        """The pictures, read where they lie."""
        for start in range(0, len(rows), CHUNK):
            yield [Reading(row, partial(_read, self.pictures[row])) for row in rows[start : start + CHUNK]]


def list_tars(paths: Sequence[Path], named: Mapping[str, str]) -> TarSource:
    """List the pictures of shards with their labels; no picture is read.

    The label is in ``.cls``, else in ``.json`` under ``label`` or the key that is named. A number stands for
    a line of ``classes.txt`` beside the shards, where that is.

    Args:
        paths: of the shards.
        named: key of the label, by ``label``.

    Raises:
        DataError: a shard is damaged; `BadPictures`: pictures without a label, all of them named.
    """
    pictures = [picture for path in paths for picture in _pictures(path, named.get(_LABEL, _LABEL))]
    parts = [part_of_file(picture.path) for picture in pictures]
    if not pictures or len({bool(part) for part in parts}) > 1:
        what = "some names say which part a shard is, and others do not" if pictures else "no picture in it"
        raise DataError(f"{some(paths)}: {what}; name shards of one set")
    names = [picture.name for picture in pictures]
    ids = names
    if len(set(names)) < len(names):  # the shards of each part count from 0
        ids = ["/".join(filter(None, pair)) for pair in zip(parts, names, strict=True)]
    known = _class_names(paths[0].parent)
    labels = [_name_of(picture.label, known) for picture in pictures]
    class_names = tuple(name for name in known or sorted(set(labels), key=_in_order) if name in set(labels))
    position = {name: label for label, name in enumerate(class_names)}
    source = TarSource(
        class_names=class_names,
        ids=ids,
        labels=[position.get(label, -1) for label in labels],
        parts=parts,
        digest=_digest(paths),
        pictures=pictures,
    )
    unlabelled = [
        f"{source.where(row)}: label {picture.label!r} is none" + (" of classes.txt" if picture.label else "")
        for row, picture in enumerate(pictures)
        if not labels[row]
    ]
    if problems := unlabelled + row_problems(labels, ids, source.where):
        raise BadPictures(
            problems, len(ids), "correct these, or name another key of the .json with --column label=KEY"
        )
    return source


def _pictures(path: Path, key: str) -> Iterator[ShardPicture]:
    """The pictures of one shard; members of one belong together by their names up to the first dot."""
    found: dict[str, ShardPicture] = {}
    labels: dict[str, str] = {}
    end = path.stat().st_size
    try:
        with tarfile.open(path, "r:") as tar:
            for member in tar:
                if member.offset_data + member.size > end:
                    raise DataError(f"{path}: offset {member.offset}: cut off; fetch or write it again")
                own, suffix = key_of(member.name), member.name.removeprefix(key_of(member.name))
                if has_suffix(member.name) and member.isfile():
                    if own in found:
                        raise DataError(
                            f"{path}: offset {member.offset}: {member.name} is a second picture of {own}"
                        )
                    found[own] = ShardPicture(member.name, path, member.offset_data, member.size, "")
                elif suffix in (".cls", ".json"):
                    stream = tar.extractfile(member)
                    text = stream.read() if stream is not None else b""
                    label = text.decode().strip() if suffix == ".cls" else json.loads(text).get(key)
                    if label is not None and (suffix == ".cls" or own not in labels):
                        labels[own] = str(label)
    except (tarfile.TarError, OSError, ValueError, AttributeError) as error:
        raise DataError(f"{path}: damaged ({one_line(error)[:120]}); fetch or write it again") from error
    for own, picture in found.items():
        yield picture._replace(label=labels.get(own, ""))


def _class_names(folder: Path) -> list[str]:
    path = folder / CLASSES_NAME
    return path.read_text(encoding="utf-8").splitlines() if path.is_file() else []


def _name_of(label: str, known: list[str]) -> str:
    """The class of a label, "" where it is none of the known ones."""
    if not known or label in known:
        return label
    return known[int(label)] if label.isdecimal() and int(label) < len(known) else ""


def _in_order(label: str) -> tuple[int, str]:
    return (int(label) if label.isdecimal() else -1, label)


def _digest(paths: Sequence[Path]) -> str:
    facts = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in paths]
    return hashlib.blake2b(repr(facts).encode(), digest_size=16).hexdigest()


def _read(picture: ShardPicture) -> Original:
    try:
        descriptor = os.open(picture.path, os.O_RDONLY)
        try:
            return Original(os.pread(descriptor, picture.size, picture.start))
        finally:
            os.close(descriptor)
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})") from error
