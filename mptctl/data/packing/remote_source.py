"""Pictures in object stores as a source of `pack`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import NamedTuple

from mptctl.data.listing.image_folder import PART_WORDS
from mptctl.data.packing.remote import Store, StoredObject
from mptctl.data.packing.source import CHUNK, Original, PackSource, Reading, Stamp, original_of
from mptctl.data.picture_kinds import is_read
from mptctl.errors import DataError, some


class _Picture(NamedTuple):
    """A picture among the objects of a store, with what its path says; ``part`` is "" outside parts."""

    stored: StoredObject
    part: str
    class_name: str
    file: str


def list_remote(store: Store, objects: Sequence[StoredObject]) -> PackSource:
    """List the pictures among the objects of a store, with parts and classes by their paths.

    Raises:
        DataError: there is no picture, a picture lies outside class folders, or only some are in parts.
    """
    pictures: list[_Picture] = []
    elsewhere: list[str] = []
    for stored in objects:
        path = stored.path.removeprefix(store.root).strip("/")
        *folders, file = path.split("/")
        if not is_read(file):
            continue
        part = PART_WORDS.get(folders[0].lower(), "") if len(folders) == 2 else ""
        if part or len(folders) == 1:
            pictures.append(_Picture(stored, part, folders[-1], file))
        else:
            elsewhere.append(path)
    parts = [picture.part for picture in pictures]
    problem = ""
    if elsewhere:
        problem = f"pictures outside class folders: {some(elsewhere)}"
    elif not pictures:
        problem = "no pictures in class folders"
    elif any(parts) and not all(parts):
        outside = [picture.stored.path for picture in pictures if not picture.part]
        problem = f"some pictures are in a part, and others are in none: {some(outside)}"
    if problem:
        raise DataError(
            f"{store.place}: {problem}; expected CLASS/FILE, or train/CLASS/FILE and test/CLASS/FILE"
        )
    class_names = tuple(sorted({picture.class_name for picture in pictures}))
    label_of = {name: label for label, name in enumerate(class_names)}
    unchecked = sum(not picture.stored.md5 for picture in pictures)
    notes = [
        f"{unchecked:,} of {len(pictures):,} objects have no checksum: of these the length is checked alone"
    ]

    def stamp(row: int) -> Stamp | None:
        stored = pictures[row].stored
        return None if stored.size is None else Stamp(stored.size, stored.changed)

    def readings(rows: Sequence[int]) -> Iterator[list[Reading]]:
        # The first reading of a list fetches all pictures of the list.
        for start in range(0, len(rows), CHUNK):
            chunk = rows[start : start + CHUNK]
            fetch = cache(partial(store.read, tuple(pictures[row].stored for row in chunk)))
            yield [
                Reading(row, partial(_take, fetch, index, pictures[row].stored.changed))
                for index, row in enumerate(chunk)
            ]

    return PackSource(
        class_names=class_names,
        ids=["/".join(filter(None, (part, name, file))) for _, part, name, file in pictures],
        labels=[label_of[picture.class_name] for picture in pictures],
        parts=parts,
        notes=notes if unchecked else [],
        where=lambda row: f"{store.place.partition('://')[0]}://{pictures[row].stored.path}",
        stamp=stamp,
        readings=readings,
    )


def _take(fetch: Callable[[], list[bytes | str]], index: int, changed: int) -> Original:
    """Return one of the objects that are fetched together, with its last change."""
    return original_of(fetch()[index], changed)
