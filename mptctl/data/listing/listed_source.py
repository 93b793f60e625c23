"""Makes manifests of tables of paths and of tar shards, and checks each picture on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, TypedDict, cast

import numpy as np

from mptctl.data.listing.image_folder import BadPictures, make_manifest
from mptctl.data.listing.labelled_rows import ArrangedRows, arrange_rows, read_class_names
from mptctl.data.listing.shards import read_shards
from mptctl.data.listing.table import read_table
from mptctl.data.listing.tar_members import FileRange
from mptctl.data.manifest import Manifest, pack_paths
from mptctl.data.verify import (
    CheckedFile,
    CheckedFiles,
    check_path,
    check_pictures,
    check_stream,
)
from mptctl.errors import DataError
from mptctl.names import OnBad, Progress, Source, Verify, tell_nobody


class Checks(TypedDict):
    """The checks of pictures while they are listed: three arguments of `read_source`."""

    verify: Verify
    on_bad: OnBad
    progress: Progress


@dataclass(frozen=True)
class ListedSource:
    """The manifest of a table or of shards.

    Attributes:
        manifest: its parts are TRAIN, BAD, and VAL and TEST where the source has them.
        problems: one line for each bad picture.
        further: further columns by name, one value for each row of the manifest.
    """

    manifest: Manifest
    problems: list[str]
    further: Mapping[str, Sequence[Any]]


def scan_listed(
    source: Source,
    place: str | None,
    root: Path | None,
    columns: Mapping[str, str],
    label_key: str | None,
    checks: Checks,
) -> ListedSource | None:
    """List and check the pictures of a table or of shards.

    Args:
        source: ``table``, ``webdataset``, or another source.
        place: the table, or a pattern or folder of shards; None for other sources.
        root: folder that paths or shards are below.
        columns: as of `scan_table`.
        label_key: as of `scan_shards`.
        checks: how each picture is checked.

    Returns:
        None for a source that is neither.

    Raises:
        UsageError, DataError: as of `scan_table` and `scan_shards`.
    """
    if place is None or root is None:
        return None
    if source == "table":
        return scan_table(Path(place), root, columns, **checks)
    return scan_shards(place, root, label_key, **checks)


def scan_table(
    place: Path,
    root: Path,
    columns: Mapping[str, str],
    *,
    labelled: bool = True,
    verify: Verify = "header",
    on_bad: OnBad = "fail",
    progress: Progress = tell_nobody,
) -> ListedSource:
    """List and check the pictures of a table.

    Args:
        place: the table, a CSV or Parquet file.
        root: folder that the paths in the table are below.
        columns, labelled: as of `read_table`.
        verify, on_bad, progress: as of `read_source`.

    Raises:
        UsageError, DataError: as of `read_table` and `arrange_rows`.
        BadPictures: ``on_bad`` is ``fail``, and some row or picture is bad.
    """
    table = read_table(place, root, columns, labelled=labelled)
    arranged = arrange_rows(table.rows, read_class_names([place.parent]) if labelled else None, str(place))
    order = arranged.order.tolist()
    paths = [table.paths[row] for row in order]

    def look(row: int) -> CheckedFile:
        return check_path(str(root / paths[row]), verify)

    checked = check_pictures(len(paths), _refuse_bad_rows(arranged, look), verify=verify, progress=progress)
    manifest = _make_manifest("table", root, paths, checked, arranged)
    if table.has_ids:
        id_bytes, id_offsets = pack_paths([table.rows.ids[row] for row in order])
        manifest = replace(manifest, id_bytes=id_bytes, id_offsets=id_offsets)
    places = [f"{table.rows.where(row)}: {table.paths[row]}" for row in order]
    further = {name: [values[row] for row in order] for name, values in table.further.items()}
    return _finish_source(manifest, checked, places, further, on_bad)


def scan_shards(
    place: str,
    root: Path,
    label_key: str | None,
    *,
    labelled: bool = True,
    verify: Verify = "header",
    on_bad: OnBad = "fail",
    progress: Progress = tell_nobody,
) -> ListedSource:
    """List and check the pictures of tar shards.

    Args:
        place: a pattern of tar files, or a folder of them.
        root: folder that the shards are below.
        label_key, labelled: as of `read_shards`.
        verify, on_bad, progress: as of `read_source`.

    Raises:
        DataError: as of `read_shards` and `arrange_rows`.
        BadPictures: ``on_bad`` is ``fail``, and some sample or picture is bad.
    """
    shards = read_shards(place, root, label_key, progress, labelled=labelled)
    arranged = arrange_rows(shards.rows, read_class_names([root]) if labelled else None, place)
    order = arranged.order.tolist()
    names = [shards.rows.ids[row] for row in order]
    shard_rows = np.array(shards.shard_rows, dtype=np.int32)[arranged.order]
    starts = np.array(shards.starts, dtype=np.int64)[arranged.order]
    lengths = np.array(shards.lengths, dtype=np.int64)[arranged.order]

    def look(row: int) -> CheckedFile:
        size = int(lengths[row])
        with open(root / shards.paths[shard_rows[row]], "rb", buffering=0) as file:
            file_range = FileRange(file.fileno(), int(starts[row]), size)
            return check_stream(cast(IO[bytes], file_range), names[row], verify, size)

    checked = check_pictures(len(names), _refuse_bad_rows(arranged, look), verify=verify, progress=progress)
    manifest = replace(
        _make_manifest("webdataset", root, names, checked, arranged),
        sizes=lengths,
        mtimes=np.array(shards.mtimes, dtype=np.int64),
        shards=tuple(shards.paths),
        shard_sizes=np.array(shards.sizes, dtype=np.int64),
        shard_rows=shard_rows,
        starts=starts,
    )
    further = {name: [values[row] for row in order] for name, values in shards.further.items()}
    places = [shards.rows.where(row) for row in order]
    return _finish_source(manifest, checked, places, further, on_bad)


def _refuse_bad_rows(
    arranged: ArrangedRows, look: Callable[[int], CheckedFile]
) -> Callable[[int], CheckedFile]:
    """Return ``look`` with a test before it: DataError for a row that has a problem already."""

    def look_unless_bad(row: int) -> CheckedFile:
        if row in arranged.problems:
            raise DataError(arranged.problems[row])
        return look(row)

    return look_unless_bad


def _make_manifest(
    source: Source, root: Path, names: Sequence[str], checked: CheckedFiles, arranged: ArrangedRows
) -> Manifest:
    """Call `make_manifest` with the classes and parts of arranged rows."""
    return make_manifest(
        source,
        root,
        names,
        checked,
        class_names=arranged.class_names,
        labels=arranged.labels,
        parts=arranged.parts,
    )


def _finish_source(
    manifest: Manifest,
    checked: CheckedFiles,
    places: Sequence[str],
    further: Mapping[str, Sequence[Any]],
    on_bad: OnBad,
) -> ListedSource:
    """Return the source, or raise BadPictures where ``on_bad`` is ``fail`` and a picture is bad.

    Args:
        manifest, further: of the source.
        checked: problems by row.
        places: place of each row in the source, for messages.
        on_bad: as of `read_source`.
    """
    problems = [f"{places[row]}: {problem}" for row, problem in checked.problems]
    if problems and on_bad == "fail":
        raise BadPictures(problems, len(manifest))
    return ListedSource(manifest, problems, further)
