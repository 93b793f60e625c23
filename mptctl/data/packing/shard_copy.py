"""A packed copy as tar shards, with shards of its own for each part; the name in a shard is the id."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from mptctl.data.listing.shards import sample_key_of
from mptctl.data.packing.copy_form import Copy, Prepared, as_json, further_values, to_safe_path, write_classes
from mptctl.data.packing.records import PackedFile, append_packed_files
from mptctl.data.packing.shard_writer import Member, ShardWriter
from mptctl.data.packing.source import PackSource
from mptctl.errors import UsageError, some
from mptctl.files import remove_partial_files

# First word of the names of shards of a source without parts.
_WITHOUT_PART = "pictures"


class ShardCopy(Copy):
    """Writes bytes, class number (``.cls``) and further columns (``.json``) of each picture into shards."""

    def __init__(self, out: Path, source: PackSource) -> None:
        super().__init__(out, source)
        self._taken: set[str] = set()  # names of shards that stay
        self._writers: dict[str, ShardWriter] = {}
        # Records of pictures whose shard is not whole yet, by part and row.
        self._waiting: dict[str, dict[int, PackedFile]] = {}

    def remove_outdated(
        self, before: Mapping[str, PackedFile], same: Mapping[str, PackedFile]
    ) -> Mapping[str, PackedFile]:
        """Remove every shard with a picture that the source has no longer, or that has changed there."""
        packed = {file.shard for file in before.values()}
        if foreign := sorted({path.name for path in self.out.glob("*.tar")} - packed):
            raise UsageError(
                f"{self.out}: holds shards that the source does not have: {some(foreign)}; remove them"
            )
        outdated = {file.shard for row_id, file in before.items() if row_id not in same}
        for shard in outdated:
            (self.out / shard).unlink(missing_ok=True)
            (self.out / shard).with_suffix(".idx").unlink(missing_ok=True)
        self._taken = packed - outdated
        return {row_id: file for row_id, file in same.items() if file.shard not in outdated}

    def begin(self) -> None:
        """Write ``classes.txt``, remove half-written files, and prepare a writer of shards for each part."""
        remove_partial_files(self.out)
        write_classes(self.out, self.source)
        for part in dict.fromkeys(self.source.parts):
            self._waiting[part] = {}
            self._writers[part] = ShardWriter(
                self.out, part or _WITHOUT_PART, self._taken, partial(self._record_shard, part)
            )

    def holds(self, file: PackedFile) -> bool:
        """Tell whether the picture's shard is there with its recorded size."""
        try:
            return os.stat(self.out / file.shard).st_size == file.shard_bytes
        except OSError:
            return False

    def write(self, picture: Prepared) -> None:
        """Do nothing: shards are written in order, by `keep`."""

    def keep(self, pictures: Iterable[Prepared]) -> None:
        """Write pictures into the shards of their parts; ``done`` gets them when their shard is whole."""
        for row, file, content in pictures:
            key, part = sample_key_of(file.path), self.source.parts[row]
            members = [Member(file.path, content), Member(f"{key}.cls", b"%d" % self.source.labels[row])]
            if further := further_values(self.source, row):
                members.append(Member(f"{key}.json", as_json(further).encode()))
            self._writers[part].add(members)
            self._waiting[part][row] = file

    def finish(self, files: Mapping[int, PackedFile]) -> None:
        """Do nothing: the shards describe themselves."""

    def close(self) -> None:
        """Finish the open shard of each part."""
        for writer in self._writers.values():
            writer.close()

    def give_up(self, error: BaseException) -> None:
        """Remove the open shard of each part."""
        for writer in self._writers.values():
            writer.give_up(error)

    def _place(self) -> str:
        return f"{self.out}/*.tar"

    def _name(self, row: int) -> str:
        return to_safe_path(self.source.ids[row])

    def _key(self, name: str) -> str:
        return sample_key_of(name)

    def _record_shard(self, part: str, shard: str, size: int) -> None:
        """Record the pictures of a part's whole shard: append their records, and add them to ``done``."""
        files = {
            row: replace(file, shard=shard, shard_bytes=size) for row, file in self._waiting[part].items()
        }
        append_packed_files(self.out, files.values())
        self.done |= files
        self._waiting[part].clear()
