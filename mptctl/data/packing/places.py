"""Chooses how the pictures of a place are listed for `pack`, by the kind of the place."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mptctl.data.listing.recognise import recognise_kind
from mptctl.data.packing.column_source import list_arrow, list_parquet
from mptctl.data.packing.source import (
    PackSource,
    list_class_folder_pictures,
    list_shard_pictures,
    list_table_pictures,
)
from mptctl.errors import DataError, UsageError, did_you_mean

# The function that lists the pictures of a place, by kind. It takes the place and --column's names by role.
LISTERS: dict[str, Callable[[str, Mapping[str, str]], PackSource]] = {
    "arrow": list_arrow,
    "parquet": list_parquet,
    "webdataset": list_shard_pictures,
    "table": list_table_pictures,
    "imagefolder": list_class_folder_pictures,
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
