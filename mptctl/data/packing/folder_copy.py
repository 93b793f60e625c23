"""A copy as a folder of classes, and a table of what that cannot say: ids, further columns."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from mptctl.data.listing.image_folder import class_folders, picture_files
from mptctl.data.packing.copy_form import (
    Copy,
    Prepared,
    as_json,
    further_of,
    has_suffix,
    safe_path,
    stem_of,
    write_classes,
)
from mptctl.data.packing.records import PackedFile, append_files
from mptctl.errors import UsageError, some
from mptctl.files import remove_partial_files, storage_error, write_atomically

TABLE_NAME = "pictures.csv"


class FolderCopy(Copy):
    """``PART/CLASS/FILE``, or ``CLASS/FILE`` of a source without parts."""

    def clear(
        self, before: Mapping[str, PackedFile], same: Mapping[str, PackedFile]
    ) -> Mapping[str, PackedFile]:
        """As `Copy.clear`."""
        ours = {file.path for file in before.values()}
        wanted = {name if has_suffix(name) else stem_of(name) for name in self._names}
        for part in {"", "train", "val", "test", *self.source.parts}:
            for name in class_folders(self.out / part):
                self._remove_strays(f"{part}/{name}".strip("/"), wanted, ours)
        return same

    def begin(self) -> None:
        """As `Copy.begin`: all folders of classes, also empty ones."""
        remove_partial_files(self.out)
        folders = {path for folder in self.source.folders() for path in (Path(folder), *Path(folder).parents)}
        for path in sorted(folders - {Path()}):
            self._make(self.out / path)

    def holds(self, file: PackedFile) -> bool:
        """As `Copy.holds`."""
        try:
            return os.lstat(self.out / file.path).st_size == file.packed_bytes
        except OSError:
            return False

    def write(self, picture: Prepared) -> None:
        """As `Copy.write`: the file."""
        write_atomically(self.out / picture.file.path, picture.content)

    def keep(self, pictures: Iterable[Prepared]) -> None:
        """As `Copy.keep`: lines."""
        files = {picture.row: picture.file for picture in pictures}
        append_files(self.out, files.values())
        self.done |= files

    def finish(self, files: Mapping[int, PackedFile]) -> None:
        """As `Copy.finish`: the table, and the order of the classes."""
        source = self.source
        has_ids = any(file.id for file in files.values())
        if source.further is None and not has_ids:
            return
        names = [] if source.further is None else source.further.column_names
        own = ["path", "label", *(["split"] if any(source.parts) else ()), *(["id"] if has_ids else ())]
        text = io.StringIO()
        table = csv.writer(text, lineterminator="\n")
        table.writerow([*own, *(f"source_{name}" if name in own else name for name in names)])
        for row, file in files.items():
            known = {"path": file.path, "label": source.class_names[source.labels[row]]}
            known |= {"split": source.parts[row], "id": file.source_id}
            further = further_of(source, row)
            table.writerow([*(known[name] for name in own), *(_cell(further.get(name)) for name in names)])
        write_atomically(self.out / TABLE_NAME, text.getvalue().encode())
        write_classes(self.out, source)

    def close(self) -> None:
        """As `Copy.close`: no file is open."""

    def give_up(self, error: BaseException) -> None:
        """As `Copy.give_up`: whatever is there is whole."""

    def _place(self) -> str:
        return str(self.out)

    def _name(self, row: int) -> str:
        name = self.source.class_names[self.source.labels[row]]
        if "/" in name or name.startswith("."):
            raise UsageError(f"class {name!r}: cannot be the name of a folder; pack with --to shards")
        folder = "/".join(filter(None, (self.source.parts[row], name)))
        row_id = safe_path(self.source.ids[row])
        return f"{folder}/{row_id.removeprefix(folder + '/').replace('/', '_')}"

    def _remove_strays(self, folder: str, wanted: set[str], ours: set[str]) -> None:
        paths = [f"{folder}/{name}" for name in picture_files(self.out / folder)]
        strays = [path for path in paths if not wanted.intersection((path, stem_of(path)))]
        foreign = [path for path in strays if path not in ours]
        if foreign:
            raise UsageError(
                f"{self.out}: holds pictures that the source does not have: {some(foreign)}; remove them"
            )
        for path in strays:
            (self.out / path).unlink(missing_ok=True)
        with suppress(OSError):  # not empty
            (self.out / folder).rmdir()

    def _make(self, folder: Path) -> None:
        if folder.resolve() != folder:
            raise UsageError(f"{folder}: is a link to {folder.resolve()}; remove it, or name another folder")
        try:
            folder.mkdir(exist_ok=True)
        except OSError as error:
            raise storage_error(folder, error) from error
        remove_partial_files(folder)


def _cell(value: Any) -> Any:
    return as_json(value) if isinstance(value, (list, dict)) else value
