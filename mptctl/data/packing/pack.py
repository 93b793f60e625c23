"""Packing: every picture of a source read once, made smaller where that is asked for, and written anew."""

from __future__ import annotations

import io
import os
import shutil
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from PIL import Image

from mptctl.data.listing.image_folder import BadPictures
from mptctl.data.manifest import STANDARD
from mptctl.data.packing.copy_form import Copy, Prepared
from mptctl.data.packing.folder_copy import FolderCopy
from mptctl.data.packing.places import LIST, TABLE_FILES, kind_of
from mptctl.data.packing.records import (
    How,
    PackedFile,
    PackReport,
    PackRequest,
    count_files,
    read_files,
    refuse_other,
    write_files,
    write_packed,
)
from mptctl.data.packing.remote import Store, is_remote, list_remote, objects_digest
from mptctl.data.packing.shard_copy import ShardCopy
from mptctl.data.packing.source import PackSource, Reading
from mptctl.data.picture_structure import START_OF_JPEG
from mptctl.data.pictures import decode, resized, single_threaded
from mptctl.data.verify import look_into, without_warnings
from mptctl.errors import DataError, UsageError, first_line
from mptctl.files import locked_folder
from mptctl.machine.facts import usable_cores
from mptctl.names import Progress, tell_nobody

# Above it Pillow's documentation promises larger files with hardly any gain in quality. Colour of half the
# size, as cameras write it, is decoded in three quarters of the time that colour of full size takes;
# docs/speed.md has both.
QUALITY, CHROMA = 95, "4:2:0"
# Of the other formats WebP alone is mostly lossy (RFC 9649, section 2.4).
START_OF_WEBP = b"RIFF"
# Folder within a copy where the files of tables in a store lie while they are packed.
FETCHED = ".fetched"
# Advice after a kill, a full disk or a bad picture.
AGAIN = "give the same command again: it goes on"


@dataclass(frozen=True)
class _Bad:
    """A picture that cannot be packed, and why."""

    row: int
    problem: str


def pack_pictures(request: PackRequest, out: Path, *, progress: Progress = tell_nobody) -> PackReport:
    """Copy all pictures of a source, as a folder of classes or as tar shards, with their ids.

    What an earlier call has done is kept where the original is what it was. Without a short side a picture is
    copied byte for byte. With one it is decoded and resized as for evaluation; JPEG and WebP are written as
    JPEG at `QUALITY`, all others as PNG, without EXIF data, whose rotation no loader applies. Smaller
    pictures are never made larger.

    Args:
        request: the source, and the form of the copy; of kind "" where that is to be found out.
        out: the copy: a new folder, or one that an earlier call with the same request began.
        progress: told how many pictures are done.

    Raises:
        UsageError: one folder lies in the other, or ``out`` holds something else.
        DataError: the source cannot be listed; `BadPictures`: pictures that cannot be decoded. All others are
            packed.
        StorageError: ``out`` cannot be written; what is done is kept.
    """
    begin = time.monotonic()
    out = out.expanduser().resolve()
    _refuse_folders(request, out)
    source, request = _open(request, out, progress)
    copy: Copy = ShardCopy(out, source) if request.to == "shards" else FolderCopy(out, source)
    with locked_folder(out):
        refuse_other(out, request)
        before = read_files(out)
        found = copy.clear(before, _unchanged(source, copy, before))
        # First: by it the next call knows the folder.
        write_packed(out, count_files(request, (), complete=False))
        copy.begin()
        write_files(out, found.values())  # without the half line of a kill
        rows = [row for row, row_id in enumerate(source.ids) if row_id not in found]
        bad = _Packing(source, copy, request.short_side).run(rows, progress)
        files = copy.done | {row: found[i] for row, i in enumerate(source.ids) if i in found}
        files = dict(sorted(files.items()))
        copy.finish(files)
        write_files(out, files.values())
        packed = count_files(request, files.values(), complete=not bad)
        write_packed(out, packed)
        if not bad:
            shutil.rmtree(out / FETCHED, ignore_errors=True)
    if bad:
        raise BadPictures(
            [f"{source.where(item.row)}: {item.problem}" for item in bad],
            len(source),
            f"all others are packed; repair or remove these, and {AGAIN}",
        )
    return PackReport(
        **dict(packed),
        path=str(out),
        classes=len(source.class_names),
        shards=len({file.shard for file in files.values() if file.shard}),
        notes=source.notes,
        next_place=copy.next_place(),
        found=len(found),
        seconds=round(time.monotonic() - begin, 2),
    )


class _Packing:
    """The copying of pictures in threads: decoder, resize and encoder let go of Python's lock.

    Args:
        source: of the pictures.
        copy: where they go.
        short_side: in pixels; None for pictures as they are.
    """

    def __init__(self, source: PackSource, copy: Copy, short_side: int | None) -> None:
        self.source, self.copy, self.short_side = source, copy, short_side
        self._given_up = threading.Event()

    def run(self, rows: list[int], progress: Progress) -> list[_Bad]:
        """Copy the pictures of some rows, and return those that cannot be."""
        bad: list[_Bad] = []
        done = len(self.source) - len(rows)
        with without_warnings(), ThreadPoolExecutor(usable_cores(), initializer=single_threaded) as pool:
            try:
                for chunk in self._pack_ahead(pool, self.source.readings(rows)):
                    self.copy.keep(item for item in chunk if isinstance(item, Prepared))
                    bad += [item for item in chunk if isinstance(item, _Bad)]
                    done += len(chunk)
                    progress("packing", done, len(self.source))
                self.copy.close()
            except BaseException as error:
                # Leaving the pool waits for its threads: after Ctrl-C or on a full disk none begins another
                # picture.
                self._given_up.set()
                self.copy.give_up(error)
                raise
        return bad

    def _pack_ahead(
        self, pool: ThreadPoolExecutor, chunks: Iterator[list[Reading]]
    ) -> Iterator[list[Prepared | _Bad]]:
        """Yield the result of each chunk, in order; at most two for each thread are in memory."""
        waiting: deque[Future[list[Prepared | _Bad]]] = deque()
        for chunk in chunks:
            waiting.append(pool.submit(self._pack_chunk, chunk))
            if len(waiting) > 2 * usable_cores():
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _pack_chunk(self, readings: list[Reading]) -> list[Prepared | _Bad]:
        return [self._pack_picture(reading) for reading in readings if not self._given_up.is_set()]

    def _pack_picture(self, reading: Reading) -> Prepared | _Bad:
        row = reading.row
        try:
            original = reading.read()
            path = self.copy.path(row, original.content)
            content, how = _packed(original.content, path, self.short_side)
        except DataError as error:
            return _Bad(row, str(error))
        row_id = self.source.ids[row]
        file = PackedFile(path, len(original.content), original.mtime, len(content), how)
        prepared = Prepared(row, replace(file, id="" if row_id == path else row_id), content)
        self.copy.write(prepared)
        return prepared


def _open(request: PackRequest, out: Path, progress: Progress) -> tuple[PackSource, PackRequest]:
    """List the source, and say what it is; files of tables in a store are fetched first."""
    if not is_remote(request.source):
        kind = kind_of(request.source, request.kind)
        source = LIST[kind](request.source, request.columns)
        return source, request.model_copy(update={"kind": kind, "digest": source.digest})
    store = Store(request.source)
    objects = store.list_objects()
    tables = [each for each in objects if each.path.endswith(TABLE_FILES)]
    if all(each.path.endswith("classes.txt") for each in tables):
        return list_remote(store, objects), request.model_copy(update={"kind": "imagefolder"})
    request = request.model_copy(update={"kind": "", "digest": objects_digest(tables)})
    with locked_folder(out):
        refuse_other(out, request)
        write_packed(out, count_files(request, (), complete=False))
        store.fetch(tables, out / FETCHED, progress)
    endings = {"parquet": ".parquet", "webdataset": ".tar"}
    found = (kind for kind, end in endings.items() if any(each.path.endswith(end) for each in tables))
    return LIST[next(found, "arrow")](str(out / FETCHED), request.columns), request


def _unchanged(source: PackSource, copy: Copy, before: Mapping[str, PackedFile]) -> dict[str, PackedFile]:
    """The lines whose picture is there, and whose original is what it was."""
    same: dict[str, PackedFile] = {}
    for row, row_id in enumerate(source.ids):
        file = before.get(row_id)
        if file is None or not copy.holds(file):
            continue
        try:
            stamp = source.stamp(row)
        except OSError:
            continue
        if stamp is None or stamp == (file.source_bytes, file.source_mtime):
            same[row_id] = file
    return same


def _packed(content: bytes, name: str, short_side: int | None) -> tuple[bytes, How]:
    """A picture's bytes in the copy, and what was done.

    Raises:
        DataError: what is wrong with it, without its name.
    """
    found = look_into(io.BytesIO(content), name, "header", len(content))
    if short_side is None:
        return content, "copied"
    small = min(found.height, found.width) <= short_side
    if small and found.kind == STANDARD:
        look_into(io.BytesIO(content), name, "decode", len(content))
        return content, "copied"
    try:
        picture = decode(content, found.kind, name)
    except DataError as error:
        raise DataError(f"cannot be decoded ({first_line(error.__cause__ or error)[:120]})") from error
    if not small:
        picture = resized(picture, [short_side])
    image = Image.fromarray(picture.contiguous().numpy())
    with _memory_file() as stream:
        if content.startswith((START_OF_JPEG, START_OF_WEBP)):
            image.save(stream, "JPEG", quality=QUALITY, subsampling=CHROMA)
        else:
            image.save(stream, "PNG")
        stream.seek(0)
        return stream.read(), "rewritten" if small else "resized"


def _memory_file() -> BinaryIO:
    """A file in memory, of the system's where it has such: into others Pillow encodes under Python's lock."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("picture"), "w+b")
    return io.BytesIO()


def _refuse_folders(request: PackRequest, out: Path) -> None:
    source = Path(request.source)
    overlaps = source == out or source in out.parents or out in source.parents
    if overlaps and not is_remote(request.source):
        raise UsageError(f"{out}: one folder lies in the other ({source}); name one outside")
    if os.path.lexists(out) and not out.is_dir():
        raise UsageError(f"{out}: is not a folder; name one")
