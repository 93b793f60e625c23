"""Packs pictures: reads each picture of a source once, resizes it if asked, and writes it into a copy."""

from __future__ import annotations

import io
import os
import shutil
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, NamedTuple

from PIL import Image

from mptctl.data.ahead import map_ahead
from mptctl.data.exif import exif_with
from mptctl.data.listing.listing import BadPictures
from mptctl.data.listing.recognise import recognise_kind
from mptctl.data.manifest import STANDARD, UPRIGHT
from mptctl.data.packing.column_source import list_arrow, list_parquet
from mptctl.data.packing.copy_writer import (
    ShardWriter,
    find_kept,
    make_class_folders,
    remove_outdated,
    write_classes,
    write_picture_table,
)
from mptctl.data.packing.plan import Planned, make_plan
from mptctl.data.packing.records import (
    How,
    Packed,
    PackedFile,
    PackReport,
    PackRequest,
    append_packed_files,
    count_files,
    read_packed_files,
    refuse_other_copy,
    write_packed,
    write_packed_files,
)
from mptctl.data.packing.remote import TABLE_FILES, Store, digest_objects, is_remote
from mptctl.data.packing.remote_source import list_remote
from mptctl.data.packing.source import (
    PackSource,
    Reading,
    list_class_folder_pictures,
    list_shard_pictures,
    list_table_pictures,
)
from mptctl.data.picture_structure import START_OF_JPEG
from mptctl.data.pictures import decode, resize_shorter_side, use_one_thread
from mptctl.data.verify import check_stream, without_warnings
from mptctl.errors import DataError, UsageError, did_you_mean, first_line
from mptctl.files import locked_folder, write_atomically
from mptctl.machine.facts import usable_cores
from mptctl.names import Progress, tell_nobody

# Pillow's documentation promises hardly any gain above quality 95, but larger files. Colour of half the size,
# as cameras write it, is decoded in three quarters of the time of full colour (0.63 and 0.86 ms a picture).
QUALITY, CHROMA = 95, "4:2:0"
# First bytes of WebP: beside JPEG the only format here that is mostly lossy (RFC 9649, section 2.4).
START_OF_WEBP = b"RIFF"
# Folder within a copy for tables and shards that are fetched from a store, until the copy is complete.
FETCHED = ".fetched"
# The function that lists the pictures of a place, by kind. It takes the place and --column's names by role.
LISTERS: dict[str, Callable[[str, Mapping[str, str]], PackSource]] = {
    "arrow": list_arrow,
    "parquet": list_parquet,
    "webdataset": list_shard_pictures,
    "table": list_table_pictures,
    "imagefolder": list_class_folder_pictures,
}
# Advice in messages about a copy that is not complete.
AGAIN = "give the same command again: it goes on"


class _Done(NamedTuple):
    """A picture that was read: its row in the source, its record and its bytes, or what is wrong with it."""

    row: int
    file: PackedFile | None = None
    content: bytes = b""
    problem: str = ""


def pack_pictures(request: PackRequest, out: Path, *, progress: Progress = tell_nobody) -> PackReport:
    """Copy all pictures of a source into folders of classes or tar shards, with their ids.

    Pictures of an earlier call stay if their originals have not changed. Without a short side, every picture
    is copied byte for byte. With a short side, a larger picture is resized as for evaluation, a smaller one
    of kind NONSTANDARD is encoded anew as RGB, and any other is copied. JPEG and WebP are encoded as JPEG at
    `QUALITY`, other formats as PNG, with no EXIF data but the rotation.

    Args:
        request: the source, and the form of the copy; an empty ``kind`` is recognised.
        out: folder of the copy: a new folder, or one that an earlier call with the same request began.
        progress: shows how many pictures are done.

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
    plan = make_plan(source, request.to, resizes=request.short_side is not None)
    with locked_folder(out):
        refuse_other_copy(out, request)
        kept = _begin_copy(out, request, source, plan)
        written, bad = _copy_pictures(out, request, source, plan, kept, progress)
        files = dict(sorted((kept | written).items()))
        packed = _end_copy(out, request, source, files, complete=not bad)
    is_sharded = request.to == "shards"
    if bad:
        others = "shards without a bad picture" if is_sharded else "others"
        raise BadPictures(
            [f"{source.where(row)}: {problem}" for row, problem in bad.items()],
            len(source),
            f"all {others} are packed; repair or remove these, and {AGAIN}",
        )
    return PackReport(
        **dict(packed),
        path=str(out),
        classes=len(source.class_names),
        shards=len({file.shard for file in files.values() if file.shard}),
        notes=source.notes,
        next_place=[f"{out}/*.tar" if is_sharded else str(out)]
        + ([] if any(source.parts) else ["--test-fraction", "0.2"]),
        found=len(kept),
        seconds=round(time.monotonic() - begin, 2),
    )


def _begin_copy(
    out: Path, request: PackRequest, source: PackSource, plan: Sequence[Planned]
) -> dict[int, PackedFile]:
    """Prepare the folder of a copy, remove its outdated files, and return the records of those that stay."""
    earlier = read_packed_files(out)
    kept = find_kept(out, source, plan, earlier)
    incomplete = count_files(request, (), complete=False)
    if not earlier:  # pack.json comes first, so that a call after a kill knows the folder
        write_packed(out, incomplete)
    remove_outdated(out, source, plan, earlier.values(), kept.values())
    if earlier:  # only now, since a copy stays complete where `remove_outdated` refuses foreign files
        write_packed(out, incomplete)
    if request.to == "shards":
        write_classes(out, source)
    else:
        make_class_folders(out, source)
    write_packed_files(out, kept.values())  # drops a line that a kill cut off
    return kept


def _end_copy(
    out: Path, request: PackRequest, source: PackSource, files: Mapping[int, PackedFile], *, complete: bool
) -> Packed:
    """Write the table and the description of a copy with these records by row; return the description."""
    if request.to == "folder":
        write_picture_table(out, source, files)
    write_packed_files(out, files.values())
    packed = count_files(request, files.values(), complete=complete)
    write_packed(out, packed)
    if complete:
        shutil.rmtree(out / FETCHED, ignore_errors=True)
    return packed


def _copy_pictures(
    out: Path,
    request: PackRequest,
    source: PackSource,
    plan: Sequence[Planned],
    kept: Mapping[int, PackedFile],
    progress: Progress,
) -> tuple[dict[int, PackedFile], dict[int, str]]:
    """Copy all pictures but those that are kept, in threads.

    After an error other than a bad picture, half-written files are removed.

    Args:
        out: folder of the copy.
        request: the form of the copy.
        source: the pictures.
        plan: where each goes.
        kept: records by row of pictures that are in the copy.
        progress: shows how many pictures are done.

    Returns:
        Records of the pictures that were copied, and what is wrong with bad ones, both by row.
    """
    written: dict[int, PackedFile] = {}
    bad: dict[int, str] = {}
    count = len(kept)
    shards = ShardWriter(out, source, plan) if request.to == "shards" else None
    folder = out if shards is None else None
    given_up = threading.Event()

    def pack_chunk(readings: list[Reading]) -> list[_Done]:
        """Pack pictures in a thread: decoder, resizing and encoder release Python's lock."""
        return [
            _pack_picture(source, plan, request.short_side, folder, reading)
            for reading in readings
            if not given_up.is_set()
        ]

    chunks = source.readings([row for row in range(len(source)) if row not in kept])
    with without_warnings(), ThreadPoolExecutor(usable_cores(), initializer=use_one_thread) as pool:
        try:
            for chunk in map_ahead(
                lambda readings: pool.submit(pack_chunk, readings).result, chunks, 2 * usable_cores()
            ):
                on_disk: dict[int, PackedFile] = {}
                for done in chunk:
                    if done.file is None:
                        bad[done.row] = done.problem
                    if shards is not None:
                        on_disk |= shards.add(done.row, done.file, done.content)
                    elif done.file is not None:
                        on_disk[done.row] = done.file
                append_packed_files(out, on_disk.values())
                written |= on_disk
                count += len(chunk)
                progress("packing", count, len(source))
        except BaseException:
            # Leaving the pool waits for its threads, so they must not begin another picture.
            given_up.set()
            if shards is not None:
                shards.give_up()
            raise
    return written, bad


def _pack_picture(
    source: PackSource, plan: Sequence[Planned], short_side: int | None, folder: Path | None, reading: Reading
) -> _Done:
    """Read a picture, convert it, and write it into ``folder``, unless that is None.

    Shards are written by the caller, in the order of their pictures.
    """
    row = reading.row
    planned = plan[row]
    try:
        original = reading.read()
        # The suffix of the original is compared with its format; a name without one gets one by its format.
        original_name = planned.path(original.content, is_copied=True)
        content, how = _convert(original.content, original_name, short_side)
        path = planned.path(content, is_copied=how == "copied")
    except DataError as error:
        return _Done(row, problem=str(error))
    if folder is not None:
        write_atomically(folder / path, content)
    own_id = "" if source.ids[row] == path else source.ids[row]
    file = PackedFile(path, len(original.content), original.mtime, len(content), how, id=own_id)
    return _Done(row, file, content)


def _list_source(request: PackRequest, out: Path, progress: Progress) -> tuple[PackSource, PackRequest]:
    """List the source of a request, and return it with the request, completed by kind and digest."""
    if is_remote(request.source):
        return _list_stored(request, out, progress)
    kind = _choose_kind(request.source, request.kind)
    source = LISTERS[kind](request.source, request.columns)
    return source, request.model_copy(update={"kind": kind, "digest": source.digest})


def _list_stored(request: PackRequest, out: Path, progress: Progress) -> tuple[PackSource, PackRequest]:
    """List a source in a store, as `_list_source` does.

    Tables and shards are first fetched into ``out``, which is begun for that.
    """
    store = Store(request.source)
    objects = store.list_objects()
    tables = [stored for stored in objects if stored.path.endswith(TABLE_FILES)]
    if all(stored.path.endswith("classes.txt") for stored in tables):
        return list_remote(store, objects), request.model_copy(update={"kind": "imagefolder"})
    completed = request.model_copy(update={"kind": "", "digest": digest_objects(tables)})
    with locked_folder(out):
        refuse_other_copy(out, completed)
        write_packed(out, count_files(completed, (), complete=False))
        store.fetch(tables, out / FETCHED, progress)
    suffixes = {Path(stored.path).suffix for stored in tables}
    kinds = {".parquet": "parquet", ".tar": "webdataset"}
    kind = next((kind for suffix, kind in kinds.items() if suffix in suffixes), "arrow")
    return LISTERS[kind](str(out / FETCHED), request.columns), completed


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
    kept = {} if facts.orientation == UPRIGHT else {"exif": exif_with(facts.orientation)}
    with _open_memory_file() as stream:
        if content.startswith((START_OF_JPEG, START_OF_WEBP)):
            image.save(stream, "JPEG", quality=QUALITY, subsampling=CHROMA, **kept)
        else:
            image.save(stream, "PNG", **kept)
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


def _choose_kind(place: str, given: str) -> str:
    """Return the kind of a source: the given one, or the recognised one where ``given`` is "".

    Args:
        place: a folder, a file or a pattern.
        given: value of ``--source``.

    Raises:
        UsageError: ``given`` is no kind of source.
        DataError: the place is of no known kind.
    """
    if given and given not in LISTERS:
        raise UsageError(f"--source {given}: unknown; use {', '.join(LISTERS)}{did_you_mean(given, LISTERS)}")
    kind = given or recognise_kind(place)
    if kind is None:
        raise DataError(
            f"{place}: nothing that is read lies there; name a folder of class folders, a table (.csv, "
            ".parquet), tar shards ('DIR/*.tar'), Parquet files ('DIR/*.parquet'), or a folder that datasets "
            "saved"
        )
    return kind
