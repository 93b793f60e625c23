"""Sources as `split` is given them: a name, or a place whose kind is recognised by what lies there."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from mptctl.data.listing.patterns import root_of
from mptctl.data.listing.recognise import recognise
from mptctl.data.packing.remote import is_remote
from mptctl.errors import DataError, UsageError, did_you_mean
from mptctl.names import NamedSource, PlaceKind, Source

NAMES = get_args(NamedSource)


@dataclass(frozen=True)
class Place:
    """A source as it was given.

    Attributes:
        source: its kind.
        root: folder that its pictures are below; None for the embedded sources.
        place: the table, or the pattern of shards; None for others.
        said: what was recognised, for people; empty where the source was named.
    """

    source: Source
    root: Path | None
    place: str | None = None
    said: str = ""


def find_place(given: str, data_root: Path | None, kind: PlaceKind | None = None) -> Place:
    """Tell what a source is.

    Args:
        given: a name, or a place.
        data_root: folder that pictures are below, where it is not the place's own.
        kind: of the place, where it is not to be recognised.

    Raises:
        UsageError: neither a name nor a place.
        DataError: a place whose pictures have to be packed first, or that holds none.
    """
    root = None if data_root is None else data_root.expanduser().resolve()
    if given in NAMES and kind is None:
        return Place(given, root)  # type: ignore[arg-type]
    place = os.path.expanduser(given)
    if is_remote(given):
        raise DataError(f"{given}: is not on this machine; pack it first: mptctl pack {given} OUT")
    if kind is None:
        kind = recognise(place)
    if kind is None:
        raise UsageError(
            f"{given}: neither a source ({', '.join(NAMES)}) nor a place{did_you_mean(given, NAMES)}; name a "
            "folder of class folders, a table (.csv, .parquet) or tar shards ('DIR/*.tar')"
        )
    if kind in ("parquet", "arrow"):
        raise DataError(
            f"{given}: holds pictures inside {kind.capitalize()} files; pack them first: mptctl pack {given} "
            "OUT --to shards"
        )
    if kind == "webdataset":
        where = root_of(place) if root is None else root
        return Place("webdataset", where, os.path.abspath(place), f"tar shards below {where}")
    if kind == "table":
        where = Path(place).resolve().parent if root is None else root
        return Place("table", where, os.path.abspath(place), f"a table of pictures below {where}")
    where = Path(place).resolve()
    return Place("imagefolder", where, None, f"folders of classes in {where}")
