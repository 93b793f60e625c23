"""Recognises what kind of source a place is, by its name and by the files that lie there."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from pathlib import Path

from mptctl.data.listing.image_folder import list_class_folders
from mptctl.data.listing.patterns import expand_braces, is_place_of_files
from mptctl.data.listing.table import holds_pictures
from mptctl.names import PlaceKind

# The file by which `datasets` marks a folder that it saved: one data set, or one for each part.
STATE_NAME, PARTS_NAME = "state.json", "dataset_dict.json"


def recognise_kind(place: str) -> PlaceKind | None:
    """Return the kind of a place; None if it is of no known kind."""
    return next((kind for kind, is_of_kind in _KINDS.items() if is_of_kind(place)), None)


def _is_table(place: str) -> bool:
    """Tell whether a place is a CSV or Parquet file of paths, and not of the pictures themselves."""
    path = Path(place)
    if path.suffix.lower() not in (".csv", ".parquet") or not path.is_file():
        return False
    return path.suffix.lower() == ".csv" or not holds_pictures(path)


def _is_arrow(place: str) -> bool:
    """Tell whether a place is a folder that `datasets` saved."""
    return any((Path(place) / name).is_file() for name in (STATE_NAME, PARTS_NAME))


def _is_parquet(place: str) -> bool:
    """Tell whether a place names Parquet files, of which there is at least one."""
    is_there = os.path.exists(place) or any(map(glob.glob, expand_braces(place)))
    return is_there and is_place_of_files(place, ".parquet")


_KINDS: dict[PlaceKind, Callable[[str], bool]] = {
    "table": _is_table,
    "webdataset": lambda place: is_place_of_files(place, ".tar"),
    "arrow": _is_arrow,
    "parquet": _is_parquet,
    "imagefolder": lambda place: bool(list_class_folders(Path(place))),
}
