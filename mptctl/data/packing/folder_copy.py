"""A packed copy as folders of classes, with a table of ids and further columns if there are any."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mptctl.data.listing.image_folder import list_class_folders, list_picture_files
from mptctl.data.packing.copy_form import (
    Copy,
    Prepared,
    as_json,
    further_values,
    has_suffix,
    to_safe_path,
    without_suffix,
    write_classes,
)
from mptctl.data.packing.records import PackedFile, append_packed_files
from mptctl.errors import UsageError, some
from mptctl.files import remove_partial_files, storage_error, write_atomically

TABLE_NAME = "pictures.csv"


class FolderCopy(Copy):
    """Writes picture files ``PART/CLASS/FILE``, or ``CLASS/FILE`` for a source without parts."""

    def remove_outdated(
        self, before: Mapping[str, PackedFile], same: Mapping[str, PackedFile]
    ) -> Mapping[str, PackedFile]:
        """Remove picture files that the source does not have, and class folders that are empty then."""
        packed = {file.path for file in before.values()}
        wanted = {name if has_suffix(name) else without_suffix(name) for name in self._names}
        for part in {"", "train", "val", "test", *self.source.parts}:
            for name in list_class_folders(self.out / part):
                self._remove_strays(f"{part}/{name}".strip("/"), wanted, packed)
        return same

    def begin(self) -> None:
        """Make all class folders, also empty ones, and remove files that a kill left half written."""
        remove_partial_files(self.out)
        folders = {path for folder in self.source.folders() for path in (Path(folder), *Path(folder).parents)}
        for path in sorted(folders - {Path()}):
            self._make_folder(self.out / path)

    def holds(self, file: PackedFile) -> bool:
        """Tell whether the file is there with its recorded size."""
        try:
            return os.lstat(self.out / file.path).st_size == file.packed_bytes
        except OSError:
            return False

    def write(self, picture: Prepared) -> None:
        """Write the picture file."""
        write_atomically(self.out / picture.file.path, picture.content)

    def keep(self, pictures: Iterable[Prepared]) -> None:
        """Append the records of pictures, whose files are written already, and add them to ``done``."""
        files = {picture.row: picture.file for picture in pictures}
        append_packed_files(self.out, files.values())
        self.done |= files

    def finish(self, files: Mapping[int, PackedFile]) -> None:
        """Write ``pictures.csv`` and ``classes.txt``, if ids or further columns need a table."""
        source = self.source
        has_ids = any(file.id for file in files.values())
        if source.further is None and not has_ids:
            return
        further_names = [] if source.further is None else source.further.column_names
        own_names = ["path", "label", *(["split"] if any(source.parts) else ()), *(["id"] if has_ids else ())]
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow(
            [*own_names, *(f"source_{name}" if name in own_names else name for name in further_names)]
        )
        for row, file in files.items():
            own = {"path": file.path, "label": source.class_names[source.labels[row]]}
            own |= {"split": source.parts[row], "id": file.source_id}
            further = further_values(source, row)
            own_cells = [own[name] for name in own_names]
            table.writerow([*own_cells, *(_cell(further.get(name)) for name in further_names)])
        write_atomically(self.out / TABLE_NAME, text.getvalue().encode())
        write_classes(self.out, source)

    def close(self) -> None:
        """Do nothing: no file is open."""

    def give_up(self, error: BaseException) -> None:
        """Do nothing: every file that is there is whole."""

    def _place(self) -> str:
        return str(self.out)

    def _name(self, row: int) -> str:
        """Return ``PART/CLASS/FILE``; UsageError for a class that cannot be the name of a folder."""
        name = self.source.class_names[self.source.labels[row]]
        if "/" in name or name.startswith("."):
            raise UsageError(f"class {name!r}: cannot be the name of a folder; pack with --to shards")
        folder = "/".join(filter(None, (self.source.parts[row], name)))
        row_id = to_safe_path(self.source.ids[row])
        return f"{folder}/{row_id.removeprefix(folder + '/').replace('/', '_')}"

    def _remove_strays(self, folder: str, wanted: set[str], packed: set[str]) -> None:
        """Remove the pictures of a class folder that are not wanted, and the folder if it is empty then.

        Args:
            folder: path of the class folder below the copy.
            wanted: paths of the source's pictures, without suffix where the source has none.
            packed: paths of pictures that earlier calls wrote.

        Raises:
            UsageError: an unwanted picture is not one that an earlier call wrote.
        """
        paths = [f"{folder}/{name}" for name in list_picture_files(self.out / folder)]
        strays = [path for path in paths if not wanted.intersection((path, without_suffix(path)))]
        foreign = [path for path in strays if path not in packed]
        if foreign:
            raise UsageError(
                f"{self.out}: holds pictures that the source does not have: {some(foreign)}; remove them"
            )
        for path in strays:
            (self.out / path).unlink(missing_ok=True)
        with suppress(OSError):  # not empty
            (self.out / folder).rmdir()

    def _make_folder(self, folder: Path) -> None:
        """Make a folder if it does not exist, and remove files that a kill left half written in it.

        Raises:
            UsageError: the folder is a link.
            StorageError: the folder cannot be made.
        """
        if folder.resolve() != folder:
            raise UsageError(f"{folder}: is a link to {folder.resolve()}; remove it, or name another folder")
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise storage_error(folder, error) from error
        remove_partial_files(folder)


def _cell(value: Any) -> Any:
    """Return a value as a cell of the table: lists and records as JSON."""
    return as_json(value) if isinstance(value, (list, dict)) else value
