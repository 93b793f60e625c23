"""Tables of paths and tar shards as sources: their rows in a manifest's order, each picture looked at."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, TypedDict, cast

import numpy as np

from mptctl.data.listing.image_folder import BadPictures, ListedRows, manifest_of
from mptctl.data.listing.labelled_rows import ArrangedRows, arrange, names_beside
from mptctl.data.listing.shards import read_shards
from mptctl.data.listing.table import read_table
from mptctl.data.listing.tar_members import Window
from mptctl.data.manifest import Manifest, pack_paths
from mptctl.data.verify import CheckedFile, CheckedFiles, check_pictures, look_at, look_into
from mptctl.errors import DataError
from mptctl.names import OnBad, Progress, Source, Verify, tell_nobody


class Checks(TypedDict):
    """The check of pictures while they are listed: arguments of `read_source`."""

    verify: Verify
    on_bad: OnBad
    progress: Progress


@dataclass(frozen=True)
class ListedSource:
    """A source whose pictures a table or shards name.

    Attributes:
        manifest: with parts TRAIN, BAD, and VAL and TEST where the source has them.
        problems: one line for each picture that is kept out.
        further: by name, columns without a role, one value for each row of the manifest.
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
    """List and check the pictures of a table or of shards; None for a source that is neither.

    Args:
        source: its name.
        place: the table, or a pattern or folder of shards.
        root: folder that paths or shards are below.
        columns, label_key: as of `scan_table` and `scan_shards`, whose errors it raises.
        checks: of each picture.
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
        root: folder that its paths are below.
        columns: names of columns by their roles, where they are other ones.
        labelled: as of `read_table`.
        verify, on_bad, progress: as of `read_source`.

    Raises:
        UsageError, DataError: as of `read_table` and `arrange`; `BadPictures`: rows that cannot be used.
    """
    table = read_table(place, root, columns, labelled=labelled)
    arranged = arrange(table.rows, names_beside([place.parent]) if labelled else None, str(place))
    order = arranged.order.tolist()
    paths = [table.paths[row] for row in order]

    def look(row: int) -> CheckedFile:
        return look_at(str(root / paths[row]), verify)

    checked = check_pictures(len(paths), _unless_bad(arranged, look), verify=verify, progress=progress)
    manifest = manifest_of("table", root, _listed(arranged), checked, paths)
    if table.has_ids:
        id_bytes, id_offsets = pack_paths([table.rows.ids[row] for row in order])
        manifest = replace(manifest, id_bytes=id_bytes, id_offsets=id_offsets)
    where = [f"{table.rows.where(row)}: {table.paths[row]}" for row in order]
    further = {name: [values[row] for row in order] for name, values in table.further.items()}
    return _kept(manifest, checked, where, further, on_bad)


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
        DataError: as of `read_shards` and `arrange`; `BadPictures`: pictures that cannot be used.
    """
    found = read_shards(place, root, label_key, progress, labelled=labelled)
    arranged = arrange(found.rows, names_beside([root]) if labelled else None, place)
    order = arranged.order.tolist()
    names = [found.rows.ids[row] for row in order]
    shard_rows = np.array(found.shard_rows, dtype=np.int32)[arranged.order]
    starts = np.array(found.starts, dtype=np.int64)[arranged.order]
    lengths = np.array(found.lengths, dtype=np.int64)[arranged.order]

    def look(row: int) -> CheckedFile:
        size = int(lengths[row])
        with open(root / found.shards[shard_rows[row]], "rb", buffering=0) as shard:
            window = Window(shard.fileno(), int(starts[row]), size)
            return look_into(cast(IO[bytes], window), names[row], verify, size)

    checked = check_pictures(len(names), _unless_bad(arranged, look), verify=verify, progress=progress)
    manifest = replace(
        manifest_of("webdataset", root, _listed(arranged), checked, names),
        sizes=lengths,
        mtimes=np.array(found.mtimes, dtype=np.int64),
        shards=tuple(found.shards),
        shard_sizes=np.array(found.sizes, dtype=np.int64),
        shard_rows=shard_rows,
        starts=starts,
    )
    further = {name: [values[row] for row in order] for name, values in found.further.items()}
    return _kept(manifest, checked, [found.rows.where(row) for row in order], further, on_bad)


def _unless_bad(arranged: ArrangedRows, look: Callable[[int], CheckedFile]) -> Callable[[int], CheckedFile]:
    """A check of a row's picture that raises DataError at once where the row is known to be bad."""

    def looked(row: int) -> CheckedFile:
        if row in arranged.problems:
            raise DataError(arranged.problems[row])
        return look(row)

    return looked


def _listed(arranged: ArrangedRows) -> ListedRows:
    return ListedRows(arranged.class_names, arranged.labels, arranged.parts)


def _kept(
    manifest: Manifest,
    checked: CheckedFiles,
    where: Sequence[str],
    further: Mapping[str, Sequence[Any]],
    on_bad: OnBad,
) -> ListedSource:
    """The source without its bad pictures; BadPictures where they are not to be kept out."""
    problems = [f"{where[row]}: {problem}" for row, problem in checked.problems]
    if problems and on_bad == "fail":
        raise BadPictures(problems, len(manifest))
    return ListedSource(manifest, problems, further)
