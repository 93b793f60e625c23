"""The sources of `pack`, a row each: how a place is known to be one, and how it is listed."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from mptctl.data.packing.arrow_folder import is_arrow_folder, list_arrow
from mptctl.data.packing.folder_source import list_folder
from mptctl.data.packing.parquet_files import list_parquet
from mptctl.data.packing.remote import expand_braces
from mptctl.data.packing.source import PackSource
from mptctl.data.packing.table_source import list_table
from mptctl.data.packing.tar_source import list_tars
from mptctl.errors import DataError, UsageError, did_you_mean

# Ends of the names of files that hold many pictures, or belong to such.
TABLE_FILES = (
    ".tar",
    "classes.txt",
    ".parquet",
    ".arrow",
    "state.json",
    "dataset_info.json",
    "dataset_dict.json",
)


class Place(NamedTuple):
    """A kind of source.

    Attributes:
        is_one: tells whether a place is of it.
        open: lists its pictures, given the columns that a person named.
    """

    is_one: Callable[[str], bool]
    open: Callable[[str, Mapping[str, str]], PackSource]


def files_of(place: str, suffix: str) -> list[Path]:
    """Files of a suffix that a pattern with braces or ``*`` names, or those in a folder, at any depth."""
    patterns = [f"{glob.escape(place)}/**/*{suffix}"] if os.path.isdir(place) else expand_braces(place)
    paths = [path for pattern in patterns for path in sorted(glob.glob(pattern, recursive=True))]
    return [Path(path) for path in paths if path.endswith(suffix)]


PLACES = {
    "arrow": Place(
        lambda place: is_arrow_folder(Path(place)), lambda place, named: list_arrow(Path(place), named)
    ),
    "parquet": Place(
        lambda place: bool(files_of(place, ".parquet")),
        lambda place, named: list_parquet(files_of(place, ".parquet"), named),
    ),
    "webdataset": Place(
        lambda place: bool(files_of(place, ".tar")),
        lambda place, named: list_tars(files_of(place, ".tar"), named),
    ),
    "table": Place(
        lambda place: place.endswith(".csv") and os.path.isfile(place),
        lambda place, named: list_table(Path(place), named),
    ),
    "imagefolder": Place(os.path.isdir, lambda place, named: list_folder(Path(place))),
}


def recognise(place: str, kind: str = "") -> str:
    """The name of the source that a place is.

    Args:
        place: a folder, a file or a pattern.
        kind: what it is said to be; "" where that is to be found out.

    Raises:
        UsageError: it is said to be none of the sources.
        DataError: it is none.
    """
    if kind and kind not in PLACES:
        raise UsageError(f"--source {kind}: unknown; use {', '.join(PLACES)}{did_you_mean(kind, PLACES)}")
    if kind and not PLACES[kind].is_one(place):
        raise DataError(f"{place}: is no {kind}; name another place, or leave out --source")
    if kind:
        return kind
    for name, row in PLACES.items():
        if row.is_one(place):
            return name
    raise DataError(
        f"{place}: nothing that is read lies there; name a folder with train/ and val/, Parquet files, or a "
        "folder that datasets saved"
    )
