"""Writes tar shards as webdataset reads them, each whole or not at all, with an index beside it."""

from __future__ import annotations

import io
import tarfile
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, NamedTuple

from mptctl.data.listing.shards import sample_key_of
from mptctl.data.listing.tar_members import whole_blocks
from mptctl.errors import StorageError
from mptctl.files import replacing, write_atomically

# Bytes of a shard at most, unless a single picture has more.
SHARD_BYTES = 256 * 2**20
# Version of the index of DALI's `wds2idx`.
_INDEX_VERSION = "v1.2"


class Member(NamedTuple):
    """A file within a shard: its name there, and its bytes."""

    name: str
    content: bytes


class ShardWriter:
    """Writes the shards of one part, one after the other; a shard gets its name when it is whole.

    Args:
        folder: folder of the shards.
        part: first word of the shards' names.
        taken: names of shards that exist already.
        tell_whole: called with the name and the bytes of a whole shard right before it gets the name.
    """

    def __init__(
        self, folder: Path, part: str, taken: Collection[str], tell_whole: Callable[[str, int], None]
    ) -> None:
        self._folder, self._part, self._taken, self._tell_whole = folder, part, set(taken), tell_whole
        self._number = 0
        self._open = ExitStack()
        self._stream: IO[bytes] = io.BytesIO()
        self._tar: tarfile.TarFile | None = None
        self._index: list[str] = []
        self._has_blanks = False  # True: some name has a blank, so the index could not be read

    def add(self, members: Sequence[Member]) -> None:
        """Write the members of one picture, into a new shard if the open one would exceed `SHARD_BYTES`.

        Raises:
            StorageError: a shard cannot be written.
        """
        size = sum(tarfile.BLOCKSIZE + whole_blocks(len(member.content)) for member in members)
        if self._tar is not None and self._tar.offset + size > SHARD_BYTES:
            self.close()
        tar = self._tar or self._begin_shard()
        line = []
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
            start = tar.offset - whole_blocks(len(content))
            self._has_blanks |= len(name.split()) > 1
            line += [name.removeprefix(sample_key_of(name) + "."), str(start), str(len(content)), name]
        self._index.append(" ".join(line))

    def close(self) -> None:
        """Finish the open shard, if there is one, and write its index; StorageError if that fails."""
        if self._tar is None:
            return
        name = self._shard_name()
        with self._open:
            self._tar.close()
            if not self._has_blanks:
                index = [f"{_INDEX_VERSION} {len(self._index)}", *self._index]
                write_atomically(
                    (self._folder / name).with_suffix(".idx"), ("\n".join(index) + "\n").encode()
                )
            self._tell_whole(name, self._stream.tell())
        self._taken.add(name)
        self._tar, self._index, self._has_blanks = None, [], False

    def give_up(self, error: BaseException) -> None:
        """Remove the open shard, if there is one, because of an error."""
        if self._tar is not None:
            with suppress(StorageError):
                self._open.__exit__(type(error), error, error.__traceback__)
            self._tar = None

    def _begin_shard(self) -> tarfile.TarFile:
        """Open the next shard whose name is free."""
        while self._shard_name() in self._taken:
            self._number += 1
        self._open = ExitStack()
        self._stream = self._open.enter_context(replacing(self._folder / self._shard_name()))
        self._tar = tarfile.TarFile(fileobj=self._stream, mode="w", format=tarfile.GNU_FORMAT)
        return self._tar

    def _shard_name(self) -> str:
        """Return the name of the shard with the present number."""
        return f"{self._part}-{self._number:06d}.tar"
