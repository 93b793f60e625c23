"""Chooses how the pictures of a place are listed for `pack`, by the kind of the place."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from mptctl.data.listing.recognise import recognise_kind
from mptctl.data.packing.arrow_folder import list_arrow
from mptctl.data.packing.folder_source import list_folder
from mptctl.data.packing.parquet_files import list_parquet
from mptctl.data.packing.source import PackSource
from mptctl.data.packing.table_source import list_table
from mptctl.data.packing.tar_source import list_tars
from mptctl.errors import DataError, UsageError, did_you_mean

# Ends of names of files that hold many pictures, or describe such files.
TABLE_FILES = (
    ".tar",
    "classes.txt",
    ".parquet",
    ".arrow",
    "state.json",
    "dataset_info.json",
    "dataset_dict.json",
)
# The function that lists the pictures of a place, by kind. It takes the place and --column's names by role.
LISTERS: dict[str, Callable[[str, Mapping[str, str]], PackSource]] = {
    "arrow": lambda place, named: list_arrow(Path(place), named),
    "parquet": list_parquet,
    "webdataset": list_tars,
    "table": lambda place, named: list_table(Path(place), named),
    "imagefolder": lambda place, named: list_folder(Path(place)),
}


def choose_kind(place: str, said: str) -> str:
    """Return the kind of a place: ``said``, or the recognised kind where ``said`` is "".

    Args:
        place: a folder, a file or a pattern.
        said: what ``--source`` says.

    Raises:
        UsageError: ``said`` is no kind of source.
        DataError: the place is of no known kind.
    """
    if said and said not in LISTERS:
        raise UsageError(f"--source {said}: unknown; use {', '.join(LISTERS)}{did_you_mean(said, LISTERS)}")
    kind = said or recognise_kind(place)
    if kind is None:
        raise DataError(
            f"{place}: nothing that is read lies there; name a folder of class folders, a table (.csv, "
            ".parquet), tar shards ('DIR/*.tar'), Parquet files ('DIR/*.parquet'), or a folder that datasets "
            "saved"
        )
    return kind
