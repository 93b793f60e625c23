"""The pictures that a source names, as one Arrow table, before any of them is opened."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from mptctl.data.listing.tar_members import FileRange
from mptctl.data.manifest import BAD, TEXT, UPRIGHT, Manifest
from mptctl.data.verify import CheckedFile, CheckedFiles, check_path, check_pictures, check_stream
from mptctl.errors import DataError, some
from mptctl.names import OnBad, Progress, Source, Verify, tell_nobody

# Types of the columns of a listing whose type Arrow does not find by itself.
_TYPES = {"path": TEXT, "id": TEXT, "label": pa.int32(), "part": pa.uint8(), "shard": pa.int32()}
# Begin of the names of the user's own columns in the table.
USER = "user."
# Begin of what the system says of a file that is not there.
_MISSING = os.strerror(errno.ENOENT)
# The problem of a row whose name cannot be written into the table. Python stands for bytes of a name that are
# not UTF-8 by surrogates.
NOT_UTF8 = "its name is not UTF-8"
_SURROGATE = re.compile("[\ud800-\udfff]")


class BadPictures(DataError):
    """Some pictures of a source cannot be used.

    Args:
        problems: one line for each bad picture, with its path and what is wrong with it.
        total: number of pictures that were checked, good and bad.
        advice: what to do about the bad pictures.
    """

    def __init__(
        self,
        problems: list[str],
        total: int,
        advice: str = "repair or remove them, or keep them out with --on-bad quarantine",
    ) -> None:
        self.problems = problems
        super().__init__(
            f"{len(problems)} of {total} pictures cannot be used: {some(problems, separator='; ')}; {advice}"
        )


class Checks(NamedTuple):
    """The checks of pictures while they are listed.

    Attributes:
        verify: ``header`` checks header and end of each picture, ``decode`` also decodes it.
        on_bad: ``fail`` raises an error for bad pictures, ``quarantine`` keeps them out.
        progress: shows how many pictures are checked.
    """

    verify: Verify = "header"
    on_bad: OnBad = "fail"
    progress: Progress = tell_nobody


class Shard(NamedTuple):
    """A tar file: its path below the root, its bytes, and nanoseconds of its last change."""

    path: str
    size: int
    mtime: int


@dataclass(frozen=True, eq=False)
class Listing:
    """The rows of a source.

    Attributes:
        source: ``imagefolder``, ``table`` or ``webdataset``.
        root: folder that paths or shards are below.
        class_names: names of the classes, in the source's own order.
        rows: a row for each picture, with the columns ``path`` (below the root, or name in a shard), ``id``
            where ids are not these paths, ``label`` (index into ``class_names``), ``part`` (TRAIN, VAL or
            TEST), ``word`` (the source's name of the part; "" where it has none), ``problem`` (null for a
            good row), for shards ``shard`` (index into ``shards``), ``start`` and ``size``, for tables
            ``line``, and the source's further columns as ``user.NAME``.
        shards: the tar files; () where each picture is a file.
        place: for a table, its path and what a row of it is called, for messages.
    """

    source: Source
    root: Path
    class_names: tuple[str, ...]
    rows: pa.Table
    shards: tuple[Shard, ...] = ()
    place: str = ""

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def id_name(self) -> str:
        """Name of the column of ids."""
        return "id" if "id" in self.rows.column_names else "path"

    def column(self, name: str) -> list[Any]:
        """Return the values of a column."""
        values: list[Any] = self.rows[name].to_pylist()
        return values

    def further(self) -> pa.Table | None:
        """Return the source's further columns by their own names; None where there are none."""
        names = [name for name in self.rows.column_names if name.startswith(USER)]
        if not names:
            return None
        return self.rows.select(names).rename_columns([name.removeprefix(USER) for name in names])

    def where(self, row: int) -> str:
        """Return the place of a row in the source, for messages."""
        path = self.rows["path"][row].as_py()
        if self.shards:
            shard, start = self.rows["shard"][row].as_py(), self.rows["start"][row].as_py()
            return f"{self.root / self.shards[shard].path}: offset {start:,}: {path}"
        if self.place:
            return f"{self.place} {self.rows['line'][row].as_py()}: {path}"
        return str(self.root / path)

    def describe_problems(self, problems: Mapping[int, str]) -> list[str]:
        """Return a line for each row with a problem, in the order of the rows."""
        return [f"{self.where(row)}: {problem}" for row, problem in sorted(problems.items())]

    def problems(self) -> dict[int, str]:
        """Return what is wrong with the bad rows, by row."""
        found = self.column("problem") if self.rows["problem"].null_count < len(self) else []
        return {row: problem for row, problem in enumerate(found) if problem is not None}

    def in_order(self) -> Listing:
        """Return the rows by part (train, val, test), class and id."""
        return replace(
            self, rows=self.rows.sort_by([(name, "ascending") for name in ("part", "label", self.id_name)])
        )


@dataclass(frozen=True)
class ListedSource:
    """The checked pictures of a source.

    Attributes:
        manifest: its parts are TRAIN, BAD, and VAL and TEST where the source has them.
        problems: one line for each bad picture.
        further: further columns, one row for each row of the manifest; None without such columns.
    """

    manifest: Manifest
    problems: list[str]
    further: pa.Table | None = None


def make_rows(
    columns: Mapping[str, Sequence[Any] | pa.Array], problems: Mapping[int, str], further: Mapping[str, Any]
) -> pa.Table:
    """Make the table of a listing.

    Args:
        columns: its columns by name, but for ``problem``.
        problems: what is wrong with bad rows, by row; a name that is not UTF-8 is one more problem.
        further: the source's further columns by name.
    """
    problems = dict(problems)
    made = {}
    for name, values in columns.items():
        try:
            made[name] = pa.array(values, _TYPES.get(name))
        except UnicodeEncodeError:
            problems |= {row: NOT_UTF8 for row, text in enumerate(values) if _SURROGATE.search(text)}
            made[name] = pa.array([os.fsencode(text).decode(errors="replace") for text in values], TEXT)
    made["problem"] = pa.array([problems.get(row) for row in range(len(made["path"]))], pa.string())
    return pa.table(made | {f"{USER}{name}": make_column(cells) for name, cells in further.items()})


def make_column(cells: Any) -> pa.Array | pa.ChunkedArray:
    """Make a column of a source's own values; of texts where their types differ."""
    if isinstance(cells, (pa.Array, pa.ChunkedArray)):
        return cells
    try:
        return pa.array(cells)
    except (pa.ArrowInvalid, pa.ArrowTypeError, OverflowError):
        return pa.array([None if cell is None else str(cell) for cell in cells])


def check_listing(listing: Listing, checks: Checks) -> ListedSource:
    """Check each picture of a listing, and make the manifest; a bad picture gets the part BAD.

    Args:
        listing: the pictures, in the order of the manifest.
        checks: how each picture is checked, and what becomes of bad ones.

    Raises:
        BadPictures: `on_bad` is ``fail``, and some row or picture is bad.
        UsageError: see `check_pictures`.
    """
    checked = _check_rows(listing, checks)
    missing = [row for row, problem in checked.problems.items() if _MISSING in problem]
    if listing.place and 2 * len(missing) > len(listing):
        paths = listing.column("path")
        raise DataError(
            f"{listing.place.rpartition(':')[0]}: {len(missing):,} of {len(listing):,} pictures are not "
            f"there ({some(paths[row] for row in missing)}), looked for in {listing.root}; name the folder "
            "that their paths begin in with --data-root"
        )
    lines = listing.describe_problems(checked.problems)
    if lines and checks.on_bad == "fail":
        raise BadPictures(lines, len(listing))
    return ListedSource(_make_manifest(listing, checked), lines, listing.further())


def _check_rows(listing: Listing, checks: Checks) -> CheckedFiles:
    """Check each picture of a listing; a row that has a problem already is not opened."""
    paths = listing.column("path")
    known_problems = listing.problems()
    if listing.shards:
        places = [listing.rows[name].to_numpy() for name in ("shard", "start", "size")]

    def check(row: int) -> CheckedFile:
        if row in known_problems:
            raise DataError(known_problems[row])
        if not listing.shards:
            return check_path(os.path.join(listing.root, paths[row]), checks.verify)
        shard, start, size = (int(column[row]) for column in places)
        with open(listing.root / listing.shards[shard].path, "rb") as file:
            return check_stream(FileRange(file, start, size), paths[row], checks.verify, size)

    return check_pictures(len(listing), check, verify=checks.verify, progress=checks.progress)


def _make_manifest(listing: Listing, checked: CheckedFiles) -> Manifest:
    """Make the manifest of a listing from what was found in its files; a bad picture gets the part BAD."""
    parts = listing.rows["part"].to_numpy().astype(np.uint8)
    parts[list(checked.problems)] = BAD
    facts = {name: np.ascontiguousarray(checked.facts[name]) for name in CheckedFile._fields}
    are_turned = bool((facts["orientation"] > UPRIGHT).any())
    manifest = Manifest(
        source=listing.source,
        root=listing.root,
        class_names=listing.class_names,
        labels=listing.rows["label"].to_numpy().astype(np.int32),
        parts=parts,
        heights=facts["height"],
        widths=facts["width"],
        kinds=facts["kind"],
        paths=listing.rows["path"].combine_chunks(),
        own_ids=listing.rows["id"].combine_chunks() if listing.id_name == "id" else None,
        sizes=facts["size"],
        mtimes=facts["mtime"],
        orientations=facts["orientation"] if are_turned else np.empty(0, dtype=np.uint8),
    )
    if not listing.shards:
        return manifest
    return replace(
        manifest,
        sizes=listing.rows["size"].to_numpy().astype(np.int64),
        mtimes=np.array([shard.mtime for shard in listing.shards], dtype=np.int64),
        shards=tuple(shard.path for shard in listing.shards),
        shard_sizes=np.array([shard.size for shard in listing.shards], dtype=np.int64),
        shard_rows=listing.rows["shard"].to_numpy().astype(np.int32),
        starts=listing.rows["start"].to_numpy().astype(np.int64),
    )
