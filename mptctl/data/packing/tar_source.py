"""Tar shards in the layout of webdataset and img2dataset as a source of `pack`."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from mptctl.data.listing.labelled_rows import read_class_names
from mptctl.data.listing.patterns import root_folder_of
from mptctl.data.listing.shards import ShardedPictures, read_shards
from mptctl.data.packing.source import OneByOneSource, Original, classify_rows
from mptctl.errors import DataError

_ADVICE = "correct these, or name another key of the .json with --column label=KEY"


@dataclass(frozen=True, eq=False, kw_only=True)
class TarSource(OneByOneSource):
    """Pictures in tar shards.

    Attributes:
        root: folder that the shards are below.
        shards: the listing of the shards, one row for each picture.
    """

    root: Path
    shards: ShardedPictures

    def where(self, row: int) -> str:
        """Return the shard, the offset in it, and the name of the picture."""
        return self.shards.rows.where(row)

    def read(self, row: int) -> Original:
        """Read the bytes of one picture out of its shard; DataError if it cannot be read."""
        shards = self.shards
        try:
            with open(self.root / shards.paths[shards.shard_rows[row]], "rb", buffering=0) as file:
                return Original(os.pread(file.fileno(), shards.lengths[row], shards.starts[row]))
        except OSError as error:
            raise DataError(f"cannot be read ({error.strerror})") from error


def list_tars(place: str, named: Mapping[str, str]) -> TarSource:
    """List the pictures of shards with their labels; no picture is read.

    Args:
        place: the shards, as of `read_shards`.
        named: its entry ``label`` is the key of the label in the .json files.

    Raises:
        DataError: as of `read_shards` and `classify_rows`.
    """
    root = root_folder_of(place)
    shards = read_shards(place, root, named.get("label"))
    classified = classify_rows(shards.rows, read_class_names([root]), place, _ADVICE)
    ids = shards.rows.ids
    if len(set(ids)) < len(ids):  # the shards of each part count from 0
        ids = ["/".join(pair) for pair in zip(classified.parts, ids, strict=True)]
    further = shards.further
    files = [*zip(shards.paths, shards.sizes, shards.mtimes, strict=True)]
    return TarSource(
        **classified._asdict(),
        ids=ids,
        further=pa.table({name: _make_column(cells) for name, cells in further.items()}) if further else None,
        digest=hashlib.blake2b(repr(files).encode(), digest_size=16).hexdigest(),
        root=root,
        shards=shards,
    )


def _make_column(cells: Sequence[Any]) -> pa.Array:
    """Make a column of values that the .json files have under one name; of texts where types differ."""
    try:
        return pa.array(cells)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if cell is None else str(cell) for cell in cells])
