"""The kind of a place with pictures, recognised by its name and by what lies there."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from pathlib import Path

from mptctl.data.listing.image_folder import class_folders
from mptctl.data.listing.patterns import expand_braces, names_files
from mptctl.data.listing.table import holds_pictures
from mptctl.names import PlaceKind

# Files by which `datasets` says what it saved in a folder: a set, or one for each part.
STATE_NAME, PARTS_NAME = "state.json", "dataset_dict.json"


def recognise(place: str) -> PlaceKind | None:
    """The kind of a place, by its name and its files; None where it is of no known kind."""
    return next((name for name, is_one in _KINDS.items() if is_one(place)), None)


def _is_table(place: str) -> bool:
    """Tell whether a file is a table that names pictures by path, and does not hold them."""
    path = Path(place)
    if path.suffix.lower() not in (".csv", ".parquet") or not path.is_file():
        return False
    return path.suffix.lower() == ".csv" or not holds_pictures(path)


def _is_arrow(place: str) -> bool:
    return any((Path(place) / name).is_file() for name in (STATE_NAME, PARTS_NAME))


def _is_parquet(place: str) -> bool:
    is_there = os.path.exists(place) or any(map(glob.glob, expand_braces(place)))
    return is_there and names_files(place, ".parquet")


_KINDS: dict[PlaceKind, Callable[[str], bool]] = {
    "table": _is_table,
    "webdataset": lambda place: names_files(place, ".tar"),
    "arrow": _is_arrow,
    "parquet": _is_parquet,
    "imagefolder": lambda place: bool(class_folders(Path(place))),
}
