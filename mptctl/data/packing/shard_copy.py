"""A copy as tar shards, those of each part by themselves; a picture's name in its shard is its id."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from mptctl.data.listing.shards import key_of
from mptctl.data.packing.copy_form import Copy, Prepared, as_json, further_of, safe_path, write_classes
from mptctl.data.packing.records import PackedFile, append_files
from mptctl.data.packing.shard_writer import Member, ShardWriter
from mptctl.data.packing.source import PackSource
from mptctl.errors import UsageError, some
from mptctl.files import remove_partial_files

# With what the names of shards begin that belong to no part.
_WITHOUT_PART = "pictures"


class ShardCopy(Copy):
    """Of each picture its bytes, the number of its class (``.cls``), and further columns (``.json``)."""

    def __init__(self, out: Path, source: PackSource) -> None:
        super().__init__(out, source)
        self._taken: set[str] = set()  # names of shards that are there
        self._writers: dict[str, ShardWriter] = {}
        self._waiting: dict[str, dict[int, PackedFile]] = {}  # for their shard to be whole, by part and row

    def clear(
        self, before: Mapping[str, PackedFile], same: Mapping[str, PackedFile]
    ) -> Mapping[str, PackedFile]:
        """As `Copy.clear`: a shard goes with the first of its pictures that is another one now."""
        ours = {file.shard for file in before.values()}
        if foreign := sorted(path.name for path in self.out.glob("*.tar") if path.name not in ours):
            raise UsageError(
                f"{self.out}: holds shards that the source does not have: {some(foreign)}; remove them"
            )
        broken = {file.shard for row_id, file in before.items() if row_id not in same}
        for shard in broken:
            (self.out / shard).unlink(missing_ok=True)
            (self.out / shard).with_suffix(".idx").unlink(missing_ok=True)
        self._taken = ours - broken
        return {row_id: file for row_id, file in same.items() if file.shard not in broken}

    def begin(self) -> None:
        """As `Copy.begin`: the names of the classes; shards begin with their first picture."""
        remove_partial_files(self.out)
        write_classes(self.out, self.source)
        for part in dict.fromkeys(self.source.parts):
            self._waiting[part] = {}
            self._writers[part] = ShardWriter(
                self.out, part or _WITHOUT_PART, self._taken, partial(self._keep, part)
            )

    def holds(self, file: PackedFile) -> bool:
        """As `Copy.holds`: the shard is, as large as it was."""
        try:
            return os.stat(self.out / file.shard).st_size == file.shard_bytes
        except OSError:
            return False

    def write(self, picture: Prepared) -> None:
        """As `Copy.write`: nothing, since a shard is written in order."""

    def keep(self, pictures: Iterable[Prepared]) -> None:
        """As `Copy.keep`: a picture is there for good when its shard is whole."""
        for row, file, content in pictures:
            key, part = key_of(file.path), self.source.parts[row]
            members = [Member(file.path, content), Member(f"{key}.cls", b"%d" % self.source.labels[row])]
            if further := further_of(self.source, row):
                members.append(Member(f"{key}.json", as_json(further).encode()))
            self._writers[part].add(members)
            self._waiting[part][row] = file

    def finish(self, files: Mapping[int, PackedFile]) -> None:
        """As `Copy.finish`: all of it is in the shards."""

    def close(self) -> None:
        """As `Copy.close`: each part's last shard."""
        for writer in self._writers.values():
            writer.close()

    def give_up(self, error: BaseException) -> None:
        """As `Copy.give_up`: the shards that are open."""
        for writer in self._writers.values():
            writer.give_up(error)

    def _place(self) -> str:
        return f"{self.out}/*.tar"

    def _name(self, row: int) -> str:
        return safe_path(self.source.ids[row])

    def _key(self, name: str) -> str:
        return key_of(name)

    def _keep(self, part: str, shard: str, size: int) -> None:
        """Remember the pictures of a shard that is whole."""
        files = {
            row: replace(file, shard=shard, shard_bytes=size) for row, file in self._waiting[part].items()
        }
        append_files(self.out, files.values())
        self.done |= files
        self._waiting[part].clear()
