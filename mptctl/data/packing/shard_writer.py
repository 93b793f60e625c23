"""Tar shards as webdataset reads them, each whole or not there, with an index of its members beside it."""

from __future__ import annotations

import io
import math
import tarfile
from collections.abc import Callable, Collection, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import IO, NamedTuple

from mptctl.data.listing.shards import key_of
from mptctl.errors import StorageError
from mptctl.files import replacing, write_atomically

# Bytes of a shard at most, unless one picture alone has more.
SHARD_BYTES = 256 * 2**20
# Form of the index: that of DALI's `wds2idx`.
_INDEX_VERSION = "v1.2"


class Member(NamedTuple):
    """A file within a shard."""

    name: str
    content: bytes


class ShardWriter:
    """Shards of one part, one after the other; each takes its name when it is whole.

    Args:
        folder: of the shards.
        part: with which their names begin.
        taken: names of shards that are there.
        tell_whole: called with a shard's name and size right before it takes the name.
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
        self._has_blanks = False  # a name with one would read as two in the index

    def add(self, members: Sequence[Member]) -> None:
        """Write the members of one picture.

        Raises:
            StorageError: a shard cannot be written; it has no name then.
        """
        size = sum(tarfile.BLOCKSIZE + _padded(len(member.content)) for member in members)
        if self._tar is not None and self._tar.offset + size > SHARD_BYTES:
            self.close()
        tar = self._tar or self._begin()
        line = []
        for name, content in members:
            info = tarfile.TarInfo(name)
            info.size = len(content)
            tar.addfile(info, io.BytesIO(content))
            start = tar.offset - _padded(len(content))
            self._has_blanks |= len(name.split()) > 1
            line += [name.removeprefix(key_of(name) + "."), str(start), str(len(content)), name]
        self._index.append(" ".join(line))

    def close(self) -> None:
        """Finish the shard that is open, if one is; errors as `add`."""
        if self._tar is None:
            return
        name = self._name()
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
        """Remove the shard that is open, if one is."""
        if self._tar is not None:
            with suppress(StorageError):
                self._open.__exit__(type(error), error, error.__traceback__)
            self._tar = None

    def _begin(self) -> tarfile.TarFile:
        while self._name() in self._taken:
            self._number += 1
        self._open = ExitStack()
        self._stream = self._open.enter_context(replacing(self._folder / self._name()))
        self._tar = tarfile.TarFile(fileobj=self._stream, mode="w", format=tarfile.GNU_FORMAT)
        return self._tar

    def _name(self) -> str:
        return f"{self._part}-{self._number:06d}.tar"


def _padded(size: int) -> int:
    """A member's bytes in the file: whole blocks."""
    return math.ceil(size / tarfile.BLOCKSIZE) * tarfile.BLOCKSIZE
