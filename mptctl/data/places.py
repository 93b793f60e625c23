"""Finds out which source the argument of `mptctl split` means: a name, or a place with pictures."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from mptctl.data.listing.patterns import root_folder_of
from mptctl.data.listing.recognise import recognise_kind
from mptctl.data.packing.remote import is_remote
from mptctl.errors import DataError, UsageError, did_you_mean
from mptctl.names import NamedSource, PlaceKind, Source

NAMES = get_args(NamedSource)


@dataclass(frozen=True)
class Place:
    """The source that an argument means.

    Attributes:
        source: name of the source.
        root: folder that the pictures are below; None for the embedded sources.
        table_or_shards: path of the table, or pattern of the shards; None for other sources.
        description: what was recognised, for a message; "" where the argument is a name.
    """

    source: Source
    root: Path | None
    table_or_shards: str | None = None
    description: str = ""


def find_place(given: str, data_root: Path | None, kind: PlaceKind | None = None) -> Place:
    """Find the source that an argument means.

    Args:
        given: the name of a source, or a place: a folder, a table, or a pattern or folder of shards.
        data_root: folder that the pictures are below; None: the folder of the place.
        kind: kind of the place; None: it is recognised.

    Raises:
        UsageError: ``given`` is neither a name nor a place of a known kind.
        DataError: the pictures of the place have to be packed first.
    """
    if given in NAMES and kind is None:
        root = None if data_root is None else data_root.expanduser().resolve()
        return Place(given, root)  # type: ignore[arg-type]
    if is_remote(given):
        raise DataError(f"{given}: is not on this machine; pack it first: mptctl pack {given} OUT")
    path = os.path.expanduser(given)
    if kind is None:
        kind = recognise_kind(path)
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
    below = find_picture_root(given, data_root, kind)
    if kind == "imagefolder":
        return Place("imagefolder", below, None, f"folders of classes in {below}")
    if kind == "webdataset":
        return Place("webdataset", below, os.path.abspath(path), f"tar shards below {below}")
    return Place("table", below, os.path.abspath(path), f"a table of pictures below {below}")


def find_picture_root(given: str, data_root: Path | None, kind: PlaceKind) -> Path:
    """Find the folder that the pictures of a place are below.

    Args:
        given: a folder, a table, or a pattern or folder of shards.
        data_root: that folder, where it is not the folder of the place.
        kind: of the place.

    Raises:
        UsageError: ``given`` is a folder of pictures, and ``data_root`` another one.
    """
    root = None if data_root is None else data_root.expanduser().resolve()
    path = os.path.expanduser(given)
    if kind == "imagefolder":
        folder = Path(path).resolve()
        if root not in (None, folder):
            raise UsageError(
                f"--data-root {data_root}: {given} holds the pictures itself; leave one of them out"
            )
        return folder
    if root is not None:
        return root
    return root_folder_of(path) if kind == "webdataset" else Path(path).resolve().parent
