"""The sources of `pack`, a row each: how the pictures of a place are listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from mptctl.data.listing.recognise import recognise
from mptctl.data.packing.arrow_folder import list_arrow
from mptctl.data.packing.folder_source import list_folder
from mptctl.data.packing.parquet_files import list_parquet
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
# Lists the pictures of a place of a kind, given the columns that a person named.
LIST: dict[str, Callable[[str, Mapping[str, str]], PackSource]] = {
    "arrow": lambda place, named: list_arrow(Path(place), named),
    "parquet": list_parquet,
    "webdataset": list_tars,
    "table": lambda place, named: list_table(Path(place), named),
    "imagefolder": lambda place, named: list_folder(Path(place)),
}


def kind_of(place: str, said: str) -> str:
    """The kind of a place: as it is said, or as it is recognised where that is "".

    Raises:
        UsageError: it is said to be none of the sources.
        DataError: it is none.
    """
    if said and said not in LIST:
        raise UsageError(f"--source {said}: unknown; use {', '.join(LIST)}{did_you_mean(said, LIST)}")
    kind = said or recognise(place)
    if kind is None:
        raise DataError(
            f"{place}: nothing that is read lies there; name a folder of class folders, a table (.csv, "
            ".parquet), tar shards ('DIR/*.tar'), Parquet files ('DIR/*.parquet'), or a folder that datasets "
            "saved"
        )
    return kind
