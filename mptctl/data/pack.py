"""A smaller copy of an image folder with the same ids: read as every loader reads, and written anew."""

from __future__ import annotations

import io
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from PIL import Image

from mptctl.data.image_folder import BadPictures, class_folders, list_pictures, parts_of, picture_files
from mptctl.data.manifest import STANDARD
from mptctl.data.pack_manifest import (
    FILES_NAME,
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
from mptctl.data.picture_structure import START_OF_JPEG
from mptctl.data.pictures import decode, resized, single_threaded
from mptctl.data.verify import look_at, without_warnings
from mptctl.errors import DataError, UsageError, first_line, some
from mptctl.files import locked_folder, remove_partial_files, storage_error, write_atomically
from mptctl.machine.facts import usable_cores
from mptctl.names import Progress, tell_nobody

# Above it Pillow's documentation promises larger files with hardly any gain in quality. Colour of half the
# size, as cameras write it, is decoded in three quarters of the time that colour of full size takes;
# docs/speed.md has both.
QUALITY, CHROMA = 95, "4:2:0"
# Of the other formats WebP alone is mostly lossy (RFC 9649, section 2.4).
START_OF_WEBP = b"RIFF"
# Pictures that a thread takes at once: their lines are written together, and a kill costs at most these
# again.
_CHUNK = 16
# Advice after a kill, a full disk or a bad picture.
AGAIN = "give the same command again: it goes on"


@dataclass(frozen=True)
class _Bad:
    """A picture that cannot be packed, and why."""

    path: str
    problem: str


def pack_folder(source: Path, out: Path, short_side: int, *, progress: Progress = tell_nobody) -> PackReport:
    """Copy ``train/``, ``val/`` and ``test/`` of an image folder, no shorter side above some pixels.

    Every picture keeps its path below the folder, and so its id. What an earlier call has done is kept where
    the original is what it was. A picture is decoded and resized as for evaluation; JPEG and WebP are written
    as JPEG at `QUALITY`, all others as PNG. No EXIF data are kept, whose rotation no loader applies.

    Args:
        source: the folder, as `list_pictures` takes it; ``train/`` may be alone.
        out: the copy: a new folder, or one that an earlier call with the same source and size began.
        short_side: in pixels; smaller pictures are never made larger.
        progress: told how many pictures are done.

    Raises:
        UsageError: one folder lies in the other, or ``out`` holds something else.
        DataError: another layout than expected; `BadPictures`: pictures that cannot be decoded. All others
            are packed.
        StorageError: ``out`` cannot be written; what is done is kept.
    """
    begin = time.monotonic()
    source, out = source.expanduser().resolve(), out.expanduser().resolve()
    _refuse_folders(source, out)
    request = PackRequest(source=str(source), short_side=short_side, quality=QUALITY)
    paths = list_pictures(source, needs_test=False).paths
    with locked_folder(out):
        refuse_other(out, request)
        before = read_files(out)
        _remove_strays(out, set(paths), before)
        # First: by it the next call knows the folder.
        write_packed(out, count_files(request, (), complete=False))
        _make_folders(source, out)
        write_files(out, before.values())  # without the half line of a kill
        done = _Packing(source, out, short_side, before).run(paths, progress)
        bad = [item for item in done if isinstance(item, _Bad)]
        files = [item for item in done if isinstance(item, PackedFile)]
        write_files(out, files)
        packed = count_files(request, files, complete=not bad)
        write_packed(out, packed)
    if bad:
        raise BadPictures(
            [f"{source / item.path}: {item.problem}" for item in bad],
            len(paths),
            f"all others are packed; repair or remove these, and {AGAIN}",
        )
    found = sum(before.get(file.path) is file for file in files)
    seconds = round(time.monotonic() - begin, 2)
    return PackReport(**dict(packed), path=str(out), found=found, seconds=seconds)


class _Packing:
    """The copying of pictures in threads: decoder, resize and encoder let go of Python's lock.

    Args:
        source, out: the folders.
        short_side: in pixels.
        before: what was done already, by path.
    """

    def __init__(self, source: Path, out: Path, short_side: int, before: dict[str, PackedFile]) -> None:
        self.source, self.out, self.short_side, self.before = source, out, short_side, before
        self._given_up = threading.Event()

    def run(self, paths: list[str], progress: Progress) -> list[PackedFile | _Bad]:
        """Copy pictures, and return what became of each, in order; lines of new ones are appended at once."""
        done: list[PackedFile | _Bad] = []
        chunks = [paths[start : start + _CHUNK] for start in range(0, len(paths), _CHUNK)]
        with (
            without_warnings(),
            open(self.out / FILES_NAME, "ab") as lines,
            ThreadPoolExecutor(usable_cores(), initializer=single_threaded) as pool,
        ):
            try:
                for chunk in pool.map(self._pack_chunk, chunks):
                    done += chunk
                    self._write_lines_of_new(lines, chunk)
                    progress("packing", len(done), len(paths))
            except BaseException:
                # Leaving the pool waits for its threads: after Ctrl-C or on a full disk none begins another
                # picture.
                self._given_up.set()
                raise
        return done

    def _write_lines_of_new(self, lines: io.BufferedWriter, chunk: list[PackedFile | _Bad]) -> None:
        new = [
            item for item in chunk if isinstance(item, PackedFile) and self.before.get(item.path) is not item
        ]
        try:
            lines.writelines(item.line() for item in new)
            lines.flush()
        except OSError as error:
            # Lines that could not be written are dropped: else closing the file fails, too, and that would be
            # said instead.
            lines.raw.close()
            raise storage_error(self.out / FILES_NAME, error) from error

    def _pack_chunk(self, paths: list[str]) -> list[PackedFile | _Bad]:
        return [self._pack_picture(path) for path in paths if not self._given_up.is_set()]

    def _pack_picture(self, path: str) -> PackedFile | _Bad:
        file = self.before.get(path)
        if file is not None and self._holds(file):
            return file
        try:
            content, size, mtime, how = _packed(str(self.source / path), self.short_side)
        except DataError as error:
            return _Bad(path, str(error))
        write_atomically(self.out / path, content)
        return PackedFile(path, size, mtime, len(content), how)

    def _holds(self, file: PackedFile) -> bool:
        """Tell whether original and copy are those of a line."""
        try:
            original, copy = os.stat(self.source / file.path), os.lstat(self.out / file.path)
        except OSError:
            return False
        was = (file.source_bytes, file.source_mtime, file.packed_bytes)
        return (original.st_size, original.st_mtime_ns, copy.st_size) == was


def _packed(path: str, short_side: int) -> tuple[bytes, int, int, How]:
    """A picture's bytes in the copy, size and time of the original, and what was done.

    Raises:
        DataError: what is wrong with it, without its name.
    """
    found = look_at(path, "header")
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise DataError(f"cannot be read ({error.strerror})") from error
    small = min(found.height, found.width) <= short_side
    if small and found.kind == STANDARD:
        look_at(path, "decode")
        return data, found.size, found.mtime, "copied"
    try:
        picture = decode(data, found.kind, path)
    except DataError as error:
        raise DataError(f"cannot be decoded ({first_line(error.__cause__ or error)[:120]})") from error
    if not small:
        picture = resized(picture, [short_side])
    image = Image.fromarray(picture.contiguous().numpy())
    with _memory_file() as stream:
        if data.startswith((START_OF_JPEG, START_OF_WEBP)):
            image.save(stream, "JPEG", quality=QUALITY, subsampling=CHROMA)
        else:
            image.save(stream, "PNG")
        stream.seek(0)
        content = stream.read()
    return content, found.size, found.mtime, "rewritten" if small else "resized"


def _memory_file() -> BinaryIO:
    """A file in memory, of the system's where it has such: into others Pillow encodes under Python's lock."""
    if hasattr(os, "memfd_create"):
        return os.fdopen(os.memfd_create("picture"), "w+b")
    return io.BytesIO()


def _refuse_folders(source: Path, out: Path) -> None:
    if not source.is_dir():
        raise DataError(f"{source}: not a folder; name the one with train/ and val/")
    if source == out or source in out.parents or out in source.parents:
        raise UsageError(f"{out}: one folder lies in the other ({source}); name one outside")
    if os.path.lexists(out) and not out.is_dir():
        raise UsageError(f"{out}: is not a folder; name one")


def _make_folders(source: Path, out: Path) -> None:
    """All folders of classes, also empty ones, without what a kill left half written in them."""
    remove_partial_files(out)
    for part in parts_of(source):
        for folder in (out / part, *(out / part / name for name in class_folders(source / part))):
            if folder.resolve() != folder:
                raise UsageError(
                    f"{folder}: is a link to {folder.resolve()}; remove it, or name another folder"
                )
            try:
                folder.mkdir(exist_ok=True)
            except OSError as error:
                raise storage_error(folder, error) from error
            remove_partial_files(folder)


def _remove_strays(out: Path, paths: set[str], before: dict[str, PackedFile]) -> None:
    """Remove from the copy what the source has no longer.

    Raises:
        UsageError: there are pictures that no call of ours wrote: they would be taken for the source's.
    """
    folders = [f"{part}/{name}" for part in ("train", "val", "test") for name in class_folders(out / part)]
    for folder in folders:
        strays = [f"{folder}/{name}" for name in picture_files(out / folder)]
        strays = [path for path in strays if path not in paths]
        foreign = [path for path in strays if path not in before]
        if foreign:
            raise UsageError(
                f"{out}: holds pictures that the source does not have: {some(foreign)}; remove them"
            )
        for path in strays:
            (out / path).unlink(missing_ok=True)
        with suppress(OSError):  # not empty
            (out / folder).rmdir()
