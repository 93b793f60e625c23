"""Packs pictures: reads each picture of a source once, resizes it if asked, and writes it into a copy."""

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
from mptctl.data.packing.places import LISTERS, TABLE_FILES, choose_kind
from mptctl.data.packing.records import (
    How,
    PackedFile,
    PackReport,
    PackRequest,
    count_files,
    read_packed_files,
    refuse_other_copy,
    write_packed,
    write_packed_files,
)
from mptctl.data.packing.remote import Store, digest_objects, is_remote, list_remote
from mptctl.data.packing.shard_copy import ShardCopy
from mptctl.data.packing.source import PackSource, Reading
from mptctl.data.picture_structure import START_OF_JPEG
from mptctl.data.pictures import decode, resize_shorter_side, use_one_thread
from mptctl.data.verify import check_stream, without_warnings
from mptctl.errors import DataError, UsageError, first_line
from mptctl.files import locked_folder
from mptctl.machine.facts import usable_cores
from mptctl.names import Progress, tell_nobody

# Pillow's documentation promises hardly any gain above quality 95, but larger files. Colour of half the size,
# as cameras write it, is decoded in three quarters of the time of full colour; docs/speed.md has both.
QUALITY, CHROMA = 95, "4:2:0"
# First bytes of WebP: beside JPEG the only format here that is mostly lossy (RFC 9649, section 2.4).
START_OF_WEBP = b"RIFF"
# Folder within a copy for tables and shards that are fetched from a store, until the copy is complete.
FETCHED = ".fetched"
# Advice in messages about a copy that is not complete.
AGAIN = "give the same command again: it goes on"


@dataclass(frozen=True)
class _BadPicture:
    """A picture that cannot be packed: its row in the source, and what is wrong."""

    row: int
    problem: str


def pack_pictures(request: PackRequest, out: Path, *, progress: Progress = tell_nobody) -> PackReport:
    """Copy all pictures of a source into folders of classes or tar shards, with their ids.

    Pictures of an earlier call stay if their originals have not changed. Without a short side, every picture
    is copied byte for byte. With a short side, a larger picture is resized as for evaluation, a smaller one
    of kind NONSTANDARD is encoded anew as RGB, and any other is copied. JPEG and WebP are encoded as JPEG at
    `QUALITY`, other formats as PNG, without EXIF data, whose rotation no loader applies.

    Args:
        request: the source, and the form of the copy; an empty ``kind`` is recognised.
        out: folder of the copy: a new folder, or one that an earlier call with the same request began.
        progress: told how many pictures are done.

    Raises:
        UsageError: source and ``out`` lie one in the other, or ``out`` holds something else.
        DataError: the source cannot be listed.
        BadPictures: some pictures cannot be decoded; all others are packed.
        StorageError: ``out`` cannot be written; pictures that are packed stay.
    """
    begin = time.monotonic()
    out = out.expanduser().resolve()
    _refuse_bad_folders(request, out)
    source, request = _list_source(request, out, progress)
    copy: Copy = ShardCopy(out, source) if request.to == "shards" else FolderCopy(out, source)
    with locked_folder(out):
        refuse_other_copy(out, request)
        before = read_packed_files(out)
        packed_before = copy.remove_outdated(before, _find_unchanged(source, copy, before))
        # pack.json comes first, so that a call after a kill knows the folder.
        write_packed(out, count_files(request, (), complete=False))
        copy.begin()
        write_packed_files(out, packed_before.values())  # drops a line that a kill cut off
        rows = [row for row, row_id in enumerate(source.ids) if row_id not in packed_before]
        bad = _Packing(source, copy, request.short_side).run(rows, progress)
        kept = {row: packed_before[key] for row, key in enumerate(source.ids) if key in packed_before}
        files = dict(sorted((copy.done | kept).items()))
        copy.finish(files)
        write_packed_files(out, files.values())
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
        found=len(packed_before),
        seconds=round(time.monotonic() - begin, 2),
    )


class _Packing:
    """Copies pictures in threads; decoder, resizing and encoder release Python's lock.

    Args:
        source: the pictures.
        copy: the copy that they go into.
        short_side: shorter side of a picture at most, in pixels; None: pictures are copied as they are.
    """

    def __init__(self, source: PackSource, copy: Copy, short_side: int | None) -> None:
        self.source, self.copy, self.short_side = source, copy, short_side
        self._given_up = threading.Event()

    def run(self, rows: list[int], progress: Progress) -> list[_BadPicture]:
        """Copy the pictures of some rows, and return those that cannot be packed.

        After an error of another kind, half-written files are removed.
        """
        bad: list[_BadPicture] = []
        done = len(self.source) - len(rows)
        with without_warnings(), ThreadPoolExecutor(usable_cores(), initializer=use_one_thread) as pool:
            try:
                for chunk in self._pack_ahead(pool, self.source.readings(rows)):
                    self.copy.keep(item for item in chunk if isinstance(item, Prepared))
                    bad += [item for item in chunk if isinstance(item, _BadPicture)]
                    done += len(chunk)
                    progress("packing", done, len(self.source))
                self.copy.close()
            except BaseException as error:
                # Leaving the pool waits for its threads, so they must not begin another picture.
                self._given_up.set()
                self.copy.give_up(error)
                raise
        return bad

    def _pack_ahead(
        self, pool: ThreadPoolExecutor, chunks: Iterator[list[Reading]]
    ) -> Iterator[list[Prepared | _BadPicture]]:
        """Yield the results of each chunk, in order; at most two chunks for each thread are in work."""
        waiting: deque[Future[list[Prepared | _BadPicture]]] = deque()
        for chunk in chunks:
            waiting.append(pool.submit(self._pack_chunk, chunk))
            if len(waiting) > 2 * usable_cores():
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()

    def _pack_chunk(self, readings: list[Reading]) -> list[Prepared | _BadPicture]:
        """Pack some pictures, one after another; none after an error elsewhere."""
        return [self._pack_picture(reading) for reading in readings if not self._given_up.is_set()]

    def _pack_picture(self, reading: Reading) -> Prepared | _BadPicture:
        """Read a picture, convert it, and write as much of it as can be written out of order."""
        row = reading.row
        try:
            original = reading.read()
            path = self.copy.path(row, original.content)
            content, how = _convert(original.content, path, self.short_side)
        except DataError as error:
            return _BadPicture(row, str(error))
        row_id = self.source.ids[row]
        file = PackedFile(path, len(original.content), original.mtime, len(content), how)
        prepared = Prepared(row, replace(file, id="" if row_id == path else row_id), content)
        self.copy.write(prepared)
        return prepared


def _list_source(request: PackRequest, out: Path, progress: Progress) -> tuple[PackSource, PackRequest]:
    """List the source of a request, and return it with the request, completed by kind and digest.

    Tables and shards in a store are first fetched into ``out``, which is begun for that.
    """
    if not is_remote(request.source):
        kind = choose_kind(request.source, request.kind)
        source = LISTERS[kind](request.source, request.columns)
        return source, request.model_copy(update={"kind": kind, "digest": source.digest})
    store = Store(request.source)
    objects = store.list_objects()
    tables = [stored for stored in objects if stored.path.endswith(TABLE_FILES)]
    if all(stored.path.endswith("classes.txt") for stored in tables):
        return list_remote(store, objects), request.model_copy(update={"kind": "imagefolder"})
    request = request.model_copy(update={"kind": "", "digest": digest_objects(tables)})
    with locked_folder(out):
        refuse_other_copy(out, request)
        write_packed(out, count_files(request, (), complete=False))
        store.fetch(tables, out / FETCHED, progress)
    suffixes = {Path(stored.path).suffix for stored in tables}
    kinds = {".parquet": "parquet", ".tar": "webdataset"}
    kind = next((kind for suffix, kind in kinds.items() if suffix in suffixes), "arrow")
    return LISTERS[kind](str(out / FETCHED), request.columns), request


def _find_unchanged(
    source: PackSource, copy: Copy, before: Mapping[str, PackedFile]
) -> dict[str, PackedFile]:
    """Return the records, by id, of pictures that are in the copy and whose originals have not changed."""
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


def _convert(content: bytes, name: str, short_side: int | None) -> tuple[bytes, How]:
    """Return the bytes of a picture for the copy, and what was done with it.

    Args:
        content: bytes of the original.
        name: name of the original, whose suffix has to fit its format.
        short_side: shorter side at most, in pixels; None: the bytes stay as they are.

    Raises:
        DataError: the picture is bad; the message does not name it.
    """
    facts = check_stream(io.BytesIO(content), name, "header", len(content))
    if short_side is None:
        return content, "copied"
    is_small = min(facts.height, facts.width) <= short_side
    if is_small and facts.kind == STANDARD:
        check_stream(io.BytesIO(content), name, "decode", len(content))
        return content, "copied"
    try:
        picture = decode(content, facts.kind, name)
    except DataError as error:
        raise DataError(f"cannot be decoded ({first_line(error.__cause__ or error)[:120]})") from error
    if not is_small:
        picture = resize_shorter_side(picture, short_side)
    image = Image.fromarray(picture.contiguous().numpy())
    with _open_memory_file() as stream:
        if content.startswith((START_OF_JPEG, START_OF_WEBP)):
            image.save(stream, "JPEG", quality=QUALITY, subsampling=CHROMA)
        else:
            image.save(stream, "PNG")
        stream.seek(0)
        return stream.read(), "rewritten" if is_small else "resized"


def _open_memory_file() -> BinaryIO:
    """Open a file in memory: if possible one of the system, since Pillow writes it without Python's lock."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("picture"), "w+b")
    return io.BytesIO()


def _refuse_bad_folders(request: PackRequest, out: Path) -> None:
    """Raise UsageError where source and copy lie one in the other, or ``out`` is no folder."""
    source = Path(request.source)
    overlaps = source == out or source in out.parents or out in source.parents
    if overlaps and not is_remote(request.source):
        raise UsageError(f"{out}: one folder lies in the other ({source}); name one outside")
    if os.path.lexists(out) and not out.is_dir():
        raise UsageError(f"{out}: is not a folder; name one")
