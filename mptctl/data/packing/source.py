"""The sources of `pack`: id, class and part of each picture before one is read, and the reading itself."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mptctl.data.listing.image_folder import find_part_folders, list_folder
from mptctl.data.listing.listing import BadPictures, Listing
from mptctl.data.listing.patterns import root_folder_of
from mptctl.data.listing.shards import list_shards
from mptctl.data.listing.table import list_table
from mptctl.data.packing.remote import Store, is_remote
from mptctl.data.picture_kinds import find_passed_over
from mptctl.errors import DataError, some

# Pictures that a thread takes at once; after a kill, each thread repeats at most so many.
CHUNK = 16


class Original(NamedTuple):
    """The encoded bytes of a picture, and the last change of its file in nanoseconds; 0 without a file."""

    content: bytes
    mtime: int = 0


class Reading(NamedTuple):
    """A picture that is to be read next.

    Attributes:
        row: row of the picture in the source.
        read: reads the picture, in any thread; raises DataError, without the picture's name, if it cannot.
    """

    row: int
    read: Callable[[], Original]


class Stamp(NamedTuple):
    """Bytes and last change (nanoseconds) of an original: they tell whether it has changed."""

    size: int
    mtime: int


@dataclass(frozen=True, eq=False, kw_only=True)
class PackSource:
    """The pictures of one place, which `pack` copies.

    Attributes:
        class_names: names of the classes, in the source's order.
        ids: id of each picture, in the order of reading; without a suffix where the source names no file.
        labels: index into ``class_names``, one for each picture.
        parts: name of the part for each picture; "" for each where the source has no parts.
        where: takes a row, and returns the place of its picture, for messages.
        readings: takes rows, ascending, and yields their readings, in lists of at most `CHUNK` for a thread.
        stamp: takes a row, and returns the present stamp of its original; None where ``digest`` tells whether
            it has changed. Raises OSError if the original is gone.
        further: further columns, one row for each picture; None without such columns.
        notes: sentences for the user on what was found.
        digest: digest of the tables or shards; "" where each picture has a stamp instead.
    """

    class_names: tuple[str, ...]
    ids: list[str]
    labels: list[int]
    parts: list[str]
    where: Callable[[int], str]
    readings: Callable[[Sequence[int]], Iterator[list[Reading]]]
    stamp: Callable[[int], Stamp | None] = lambda row: None
    further: pa.Table | None = None
    notes: list[str] = field(default_factory=list)
    digest: str = ""

    def __len__(self) -> int:
        return len(self.ids)

    def folder(self, row: int) -> str:
        """Return the path of a picture's class folder, ``PART/CLASS`` or ``CLASS``."""
        return "/".join(filter(None, (self.parts[row], self.class_names[self.labels[row]])))


def in_chunks(readings: Iterable[Reading]) -> Iterator[list[Reading]]:
    """Yield readings in lists of `CHUNK`; the last list may be shorter."""
    left = iter(readings)
    return iter(lambda: list(islice(left, CHUNK)), [])


def original_of(content: bytes | str, mtime: int = 0) -> Original:
    """Return the original of an object that a store was asked for; DataError for a text that says a fault."""
    if isinstance(content, str):
        raise DataError(content)
    return Original(content, mtime)


def list_class_folder_pictures(place: str, named: Mapping[str, str]) -> PackSource:
    """List the pictures of an image folder, whose paths are the ids; errors: see `list_folder`."""
    root = Path(place)
    listing = list_folder(root, needs_test=False)
    source = _make_source(listing, listing.column("path"), "repair or rename these")
    source.notes.extend(find_passed_over(root, find_part_folders(root)).lines())
    return source


def list_table_pictures(place: str, named: Mapping[str, str]) -> PackSource:
    """List the pictures of a table; ``named`` and errors: see `list_table`."""
    listing = list_table(Path(place), None, named)
    digest = hashlib.blake2b(Path(place).read_bytes(), digest_size=16).hexdigest()
    ids = listing.column(listing.id_name)
    if listing.id_name == "path":
        ids = [name.partition("://")[2] or name for name in ids]
    return _make_source(listing, ids, "correct these rows", digest)


def list_shard_pictures(place: str, named: Mapping[str, str]) -> PackSource:
    """List the pictures of shards, with the errors of `list_shards`; ``label`` in ``named`` is its key."""
    listing = list_shards(place, root_folder_of(place), named.get("label"))
    ids = listing.column("path")
    if len(set(ids)) < len(ids):  # the shards of each part count from 0
        ids = ["/".join(pair) for pair in zip(listing.column("word"), ids, strict=True)]
    digest = hashlib.blake2b(repr([*map(tuple, listing.shards)]).encode(), digest_size=16).hexdigest()
    advice = "correct these, or name another key of the .json with --column label=KEY"
    return _make_source(listing, ids, advice, digest)


def _make_source(listing: Listing, ids: list[str], advice: str, digest: str = "") -> PackSource:
    """Make the source of a listing with these ids, once `refuse_bad_rows` has found no bad row."""
    paths = listing.column("path")
    refuse_bad_rows(listing.describe_problems(listing.problems()), len(listing), advice)

    def stamp(row: int) -> Stamp | None:
        if listing.shards or is_remote(paths[row]):
            return None
        stat = os.stat(listing.root / paths[row])
        return Stamp(stat.st_size, stat.st_mtime_ns)

    return PackSource(
        **classed_fields(listing.class_names, listing.rows),
        ids=ids,
        where=listing.where,
        readings=lambda rows: in_chunks(Reading(row, partial(_read, listing, row)) for row in rows),
        stamp=stamp,
        further=listing.further(),
        digest=digest,
    )


def _read(listing: Listing, row: int) -> Original:
    """Read a picture out of a file or shard, or at an address; DataError without its name if that fails."""
    path = listing.rows["path"][row].as_py()
    if is_remote(path):
        store = Store(path)
        (content,) = store.read(store.list_objects())
        return original_of(content)
    try:
        if not listing.shards:
            with open(listing.root / path, "rb", buffering=0) as file:
                return Original(file.read(), os.fstat(file.fileno()).st_mtime_ns)
        shard, start, size = (listing.rows[name][row].as_py() for name in ("shard", "start", "size"))
        with open(listing.root / listing.shards[shard].path, "rb", buffering=0) as file:
            return Original(os.pread(file.fileno(), size, start))
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})") from error


def refuse_bad_rows(lines: list[str], total: int, advice: str) -> None:
    """Raise BadPictures if there are lines that say what is wrong with rows."""
    if lines:
        raise BadPictures(lines, total, advice)


def classed_fields(names: tuple[str, ...], rows: pa.Table) -> dict[str, Any]:
    """Return fields of a `PackSource` for rows of a listing; classes without a picture are left out."""
    used, positions = np.unique(rows["label"].to_numpy(), return_inverse=True)
    empty = [names[label] for label in np.setdiff1d(np.arange(len(names)), used)]
    notes = [f"left out: {len(empty)} of {len(names)} classes, which have no picture: {some(empty)}"]
    return {
        "class_names": tuple(names[label] for label in used.tolist()),
        "labels": positions.tolist(),
        "parts": rows["word"].to_pylist(),
        "notes": notes if empty else [],
    }
