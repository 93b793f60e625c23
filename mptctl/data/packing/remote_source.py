"""Pictures in object stores as a source of `pack`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial

from mptctl.data.listing.image_folder import PART_WORDS
from mptctl.data.packing.remote import Store, StoredObject
from mptctl.data.packing.source import CHUNK, Original, PackSource, Reading, Stamp
from mptctl.data.picture_kinds import is_read
from mptctl.errors import DataError, some


@dataclass(frozen=True, eq=False, kw_only=True)
class RemoteSource(PackSource):
    """Pictures in a store, ``PART/CLASS/FILE`` or ``CLASS/FILE`` below an address, as a source of `pack`.

    Attributes:
        store: the store.
        objects: the object of each row.
    """

    store: Store
    objects: list[StoredObject]

    def where(self, row: int) -> str:
        """Return the address of the picture."""
        return f"{self.store.place.partition('://')[0]}://{self.objects[row].path}"

    def stamp(self, row: int) -> Stamp | None:
        """Return size and last change, as the store says; None where it does not say the size."""
        size, changed = self.objects[row].size, self.objects[row].changed
        return None if size is None else Stamp(size, changed)

    def readings(self, rows: Sequence[int]) -> Iterator[list[Reading]]:
        """Yield the readings of some rows; the first one of a list fetches all pictures of the list."""
        for start in range(0, len(rows), CHUNK):
            chunk = rows[start : start + CHUNK]
            batch = _ObjectBatch(self.store, [self.objects[row] for row in chunk])
            yield [Reading(row, partial(batch.read, place)) for place, row in enumerate(chunk)]


class _ObjectBatch:
    """Fetches some objects together when the first of them is read; for one thread."""

    def __init__(self, store: Store, objects: list[StoredObject]) -> None:
        self._store, self._objects = store, objects
        self._contents: list[bytes | str] = []

    def read(self, place: int) -> Original:
        """Return the object at a place of the batch; DataError if it is bad or cannot be fetched."""
        if not self._contents:
            self._contents = self._store.read(self._objects)
        content = self._contents[place]
        if isinstance(content, str):
            raise DataError(content)
        return Original(content, self._objects[place].changed)


def list_remote(store: Store, objects: Sequence[StoredObject]) -> RemoteSource:
    """List the pictures among the objects of a store, with parts and classes by their paths.

    Raises:
        DataError: there is no picture, a picture lies outside class folders, or only some are in parts.
    """
    pictures, ids, names, parts, elsewhere = [], [], [], [], []
    for stored in objects:
        path = stored.path.removeprefix(store.root).strip("/")
        *folders, file = path.split("/")
        if not is_read(file):
            continue
        part = PART_WORDS.get(folders[0].lower(), "") if len(folders) == 2 else ""
        is_in_class_folder = len(folders) == 1 or bool(part)
        if not is_in_class_folder:
            elsewhere.append(path)
            continue
        pictures.append(stored)
        ids.append("/".join(filter(None, (part, folders[-1], file))))
        names.append(folders[-1])
        parts.append(part)
    if elsewhere or not pictures or (any(parts) and not all(parts)):
        outside = f"pictures outside class folders: {some(elsewhere)}"
        problem = outside if elsewhere else "no pictures in class folders"
        raise DataError(
            f"{store.place}: {problem}; expected CLASS/FILE, or train/CLASS/FILE and test/CLASS/FILE"
        )
    class_names = tuple(sorted(set(names)))
    position = {name: label for label, name in enumerate(class_names)}
    unchecked = sum(not stored.md5 for stored in pictures)
    notes = [
        f"{unchecked:,} of {len(pictures):,} objects have no checksum: of these the length is checked alone"
    ]
    return RemoteSource(
        class_names=class_names,
        ids=ids,
        labels=[position[name] for name in names],
        parts=parts,
        folders=frozenset("/".join(filter(None, pair)) for pair in zip(parts, names, strict=True)),
        notes=notes if unchecked else [],
        store=store,
        objects=pictures,
    )
