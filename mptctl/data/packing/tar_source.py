"""Tar shards as webdataset and img2dataset lay them out, as `pack` reads them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa

from mptctl.data.listing.labelled_rows import names_beside
from mptctl.data.listing.patterns import root_of
from mptctl.data.listing.shards import Shards, read_shards
from mptctl.data.packing.source import CHUNK, Original, PackSource, Reading, class_rows
from mptctl.errors import DataError

_ADVICE = "correct these, or name another key of the .json with --column label=KEY"


@dataclass(frozen=True, eq=False, kw_only=True)
class TarSource(PackSource):
    """Pictures in tar shards.

    Attributes:
        root: folder that the shards are below.
        shards: with the place of each picture, in their order.
    """

    root: Path
    shards: Shards

    def where(self, row: int) -> str:
        """The shard, the byte in it, and the name."""
        return self.shards.rows.where(row)

    def readings(self, rows: Sequence[int]) -> Iterator[list[Reading]]:
        """The pictures, read where they lie."""
        for start in range(0, len(rows), CHUNK):
            yield [Reading(row, partial(self._read, row)) for row in rows[start : start + CHUNK]]

    def _read(self, row: int) -> Original:
        shards = self.shards
        try:
            with open(self.root / shards.shards[shards.shard_rows[row]], "rb", buffering=0) as file:
                return Original(os.pread(file.fileno(), shards.lengths[row], shards.starts[row]))
        except OSError as error:
            raise DataError(f"cannot be read ({error.strerror})") from error


def list_tars(place: str, named: Mapping[str, str]) -> TarSource:
    """List the pictures of shards with their labels; no picture is read.

    Args:
        place: as of `read_shards`.
        named: key of the label, by ``label``.

    Raises:
        DataError: as of `read_shards` and `class_rows`.
    """
    root = root_of(place)
    shards = read_shards(place, root, named.get("label"))
    found = class_rows(shards.rows, names_beside([root]), place, _ADVICE)
    ids = shards.rows.ids
    if len(set(ids)) < len(ids):  # the shards of each part count from 0
        ids = ["/".join(pair) for pair in zip(found.parts, ids, strict=True)]
    further = shards.further
    facts = [*zip(shards.shards, shards.sizes, shards.mtimes, strict=True)]
    return TarSource(
        **found._asdict(),
        ids=ids,
        further=pa.table({name: _column(cells) for name, cells in further.items()}) if further else None,
        digest=hashlib.blake2b(repr(facts).encode(), digest_size=16).hexdigest(),
        root=root,
        shards=shards,
    )


def _column(cells: Sequence[Any]) -> pa.Array:
    """The values of the .json files under one name; as text where they are of several types."""
    try:
        return pa.array(cells)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if cell is None else str(cell) for cell in cells])
