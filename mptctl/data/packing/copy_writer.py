"""Files of a packed copy: which of them stay, and the writing of tar shards and of a folder's table."""

from __future__ import annotations

import csv
import io
import json
import os
import tarfile
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import IO, Any

from mptctl.data.listing.image_folder import list_class_folders, list_picture_files
from mptctl.data.listing.shards import sample_key_of
from mptctl.data.packing.plan import Planned, without_suffix
from mptctl.data.packing.records import PackedFile
from mptctl.data.packing.source import PackSource
from mptctl.errors import StorageError, UsageError, some
from mptctl.files import remove_partial_files, replacing, storage_error, write_atomically

CLASSES_NAME, TABLE_NAME = "classes.txt", "pictures.csv"


def find_kept(
    out: Path, source: PackSource, plan: Sequence[Planned], before: Mapping[str, PackedFile]
) -> dict[int, PackedFile]:
    """Find the pictures that are in the copy as planned; return their records by row.

    The original of such a picture has not changed, and its file or shard has the recorded size. A shard stays
    only if all its pictures do.

    Args:
        out: folder of the copy.
        source: the pictures.
        plan: where each goes.
        before: records of all pictures that earlier calls wrote, by id.
    """
    size_of = cache(lambda name: _size_of(out / name))  # a shard is asked for once, not for each picture
    kept: dict[int, PackedFile] = {}
    for row, (row_id, planned) in enumerate(zip(source.ids, plan, strict=True)):
        file = before.get(row_id)
        if (
            file is not None
            and file.shard == planned.shard
            and without_suffix(file.path) == without_suffix(planned.name)
            and file.size == size_of(file.file)
            and _is_original_unchanged(source, row, file)
        ):
            kept[row] = file
    incomplete = {planned.shard for row, planned in enumerate(plan) if row not in kept} - {""}
    return {row: file for row, file in kept.items() if file.shard not in incomplete}


def _is_original_unchanged(source: PackSource, row: int, file: PackedFile) -> bool:
    """Tell whether an original has the size and time of its record; without a time it counts as unchanged."""
    try:
        stamp = source.stamp(row)
    except OSError:
        return False
    return stamp is None or stamp == (file.source_bytes, file.source_mtime)


def remove_outdated(
    out: Path,
    source: PackSource,
    plan: Sequence[Planned],
    before: Iterable[PackedFile],
    kept: Iterable[PackedFile],
) -> None:
    """Remove files that earlier calls wrote and that do not stay, and files that a kill left half written.

    Args:
        out, source, plan: see `find_kept`.
        before: records of all pictures that earlier calls wrote.
        kept: records of those that stay.

    Raises:
        UsageError: a class folder is a link; or there are pictures that no call of `pack` wrote, and that
            would count as the source's.
    """
    folders = [
        "/".join(filter(None, (part, name)))
        for part in sorted({"", "train", "val", "test", *source.parts})
        for name in list_class_folders(out / part)
    ]
    for folder in folders:
        if (out / folder).resolve() != out / folder:
            raise UsageError(f"{out / folder}: is a link, or lies in one; remove it, or name another folder")
    written = {file.file for file in before}
    _refuse_foreign_files(out, plan, folders, written)
    for name in written - {file.file for file in kept}:
        (out / name).unlink(missing_ok=True)
    for folder in folders:
        with suppress(OSError):  # not empty
            (out / folder).rmdir()
    remove_partial_files(out)


def _refuse_foreign_files(
    out: Path, plan: Sequence[Planned], folders: Sequence[str], written: set[str]
) -> None:
    """Refuse a copy with shards or pictures that are neither planned nor written by earlier calls.

    Args:
        out, plan: see `find_kept`.
        folders: the class folders of the copy.
        written: names of the files that earlier calls wrote.

    Raises:
        UsageError: there are such files.
    """
    if any(each.shard for each in plan):
        what = "shards"
        found = [path.name for path in out.glob("*.tar")]
        planned = {each.shard for each in plan}
    else:
        what = "pictures"
        found = [f"{folder}/{name}" for folder in folders for name in list_picture_files(out / folder)]
        planned = {each.name if each.is_settled else without_suffix(each.name) for each in plan}
    ours = written | planned
    foreign = sorted(name for name in found if name not in ours and without_suffix(name) not in ours)
    if foreign:
        raise UsageError(f"{out}: holds {what} that the source does not have: {some(foreign)}; remove them")


def make_class_folders(out: Path, source: PackSource) -> None:
    """Make the class folders of a copy, and remove files that a kill left half written.

    Raises:
        StorageError: a folder cannot be made.
    """
    folders = {source.folder(row) for row in range(len(source))}
    names = {path for folder in folders for path in (Path(folder), *Path(folder).parents)}
    for folder in sorted(out / name for name in names - {Path()}):
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise storage_error(folder, error) from error
        remove_partial_files(folder)


def write_classes(out: Path, source: PackSource) -> None:
    """Write ``classes.txt`` into a copy: the names of the classes, one a line, class 0 first."""
    write_atomically(out / CLASSES_NAME, "".join(f"{name}\n" for name in source.class_names).encode())


def write_picture_table(out: Path, source: PackSource, files: Mapping[int, PackedFile]) -> None:
    """Write ``pictures.csv`` and ``classes.txt`` into a copy, if ids or further columns need a table.

    Args:
        out, source: see `find_kept`.
        files: records of all pictures in the copy, by row.
    """
    has_ids = any(file.id for file in files.values())
    if source.further is None and not has_ids:
        return
    further = [] if source.further is None else source.further.column_names
    columns = ["path", "label"]
    if any(source.parts):
        columns.append("split")
    if has_ids:
        columns.append("id")
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow([*columns, *(f"source_{name}" if name in columns else name for name in further)])
    for row, file in files.items():
        label = source.class_names[source.labels[row]]
        own = {"path": file.path, "label": label, "split": source.parts[row], "id": file.source_id}
        values = _further_values(source, row)
        table.writerow([*map(own.get, columns), *(_as_cell(values.get(name)) for name in further)])
    write_atomically(out / TABLE_NAME, text.getvalue().encode())
    write_classes(out, source)


class ShardWriter:
    """Writes bytes, class number (``.cls``) and further columns (``.json``) of each picture into shards.

    A shard gets its name when all its pictures are in it; with a bad one it is left out.

    Args:
        out, source, plan: see `find_kept`.
    """

    def __init__(self, out: Path, source: PackSource, plan: Sequence[Planned]) -> None:
        self._out, self._source, self._plan = out, source, plan
        self._missing = Counter(each.shard for each in plan)  # pictures still to be written into each shard
        self._open: dict[str, _OpenShard] = {}
        self._left_out: set[str] = set()

    def add(self, row: int, file: PackedFile | None, content: bytes) -> dict[int, PackedFile]:
        """Write a picture into its shard; return the records of all its pictures, by row, when it is whole.

        Args:
            row: row of the picture in the source, ascending from call to call.
            file: its record; None for a picture that cannot be packed: the whole shard is left out then.
            content: its bytes in the copy.
        """
        name = self._plan[row].shard
        if file is None or name in self._left_out:
            self._left_out.add(name)
            if name in self._open:
                self._open.pop(name).give_up()
            return {}
        if name not in self._open:
            self._open[name] = _OpenShard(self._out / name)
        key = sample_key_of(file.path)
        members = [(file.path, content), (f"{key}.cls", b"%d" % self._source.labels[row])]
        if further := _further_values(self._source, row):
            members.append((f"{key}.json", _as_json(further).encode()))
        self._open[name].add(row, file, members)
        self._missing[name] -= 1
        if self._missing[name]:
            return {}
        return self._open.pop(name).close()

    def give_up(self) -> None:
        """Remove the shards that are half written."""
        for shard in self._open.values():
            shard.give_up()


class _OpenShard:
    """A shard that is being written."""

    def __init__(self, path: Path) -> None:
        self._path, self._open = path, ExitStack()
        self._stream: IO[bytes] = self._open.enter_context(replacing(path))
        self._tar = tarfile.TarFile(fileobj=self._stream, mode="w", format=tarfile.GNU_FORMAT)
        self._files: dict[int, PackedFile] = {}

    def add(self, row: int, file: PackedFile, members: Sequence[tuple[str, bytes]]) -> None:
        """Write name and bytes of the members of one picture."""
        self._files[row] = file
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            self._tar.addfile(info, io.BytesIO(content))

    def close(self) -> dict[int, PackedFile]:
        """Finish the shard, and return the records of its pictures by row."""
        with self._open:
            self._tar.close()
            size = self._stream.tell()
        name = self._path.name
        return {row: replace(file, shard=name, shard_bytes=size) for row, file in self._files.items()}

    def give_up(self) -> None:
        """Remove the shard: `replacing` does so after an error."""
        with suppress(StorageError), self._open:
            raise StorageError("given up")


def _size_of(path: Path) -> int | None:
    """Return the bytes of a file; None where there is none."""
    try:
        return os.lstat(path).st_size
    except OSError:
        return None


def _further_values(source: PackSource, row: int) -> dict[str, Any]:
    """Return the further columns of one picture by name, without empty ones."""
    if source.further is None:
        return {}
    values = {name: source.further.column(name)[row].as_py() for name in source.further.column_names}
    return {name: value for name, value in values.items() if value is not None}


def _as_json(value: Any) -> str:
    """Return a value of a further column as JSON; a value of a type that JSON lacks as text."""
    return json.dumps(value, default=str, ensure_ascii=False)


def _as_cell(value: Any) -> Any:
    """Return a value as a cell of the table: lists and records as JSON."""
    return _as_json(value) if isinstance(value, (list, dict)) else value
