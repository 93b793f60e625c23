"""Keeps further columns of a table or of shards beside the split, for slices and weights in `evaluate`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from mptctl.data.manifest import BAD, Manifest
from mptctl.files import replacing


def columns_path(run_root: Path, manifest_fingerprint: str) -> Path:
    """Return the path of the file of a split's further columns, which need not exist."""
    return run_root / f"columns-{manifest_fingerprint[:16]}.parquet"


def keep_columns(further: pa.Table | None, manifest: Manifest, run_root: Path) -> None:
    """Write further columns by id, all as text, and remove the files of earlier splits.

    Without further columns no file is written. A column ``id`` is left out.

    Args:
        further: the columns, one row for each row of the manifest; None without any.
        manifest: the pictures; of an id in two parts, the later row is kept.
        run_root: folder of the split.

    Raises:
        StorageError: the file cannot be written.
    """
    path = columns_path(run_root, manifest.fingerprint)
    names = [] if further is None else [name for name in further.column_names if name != "id"]
    if further is not None and names:
        from pyarrow import parquet

        used = np.flatnonzero(manifest.parts != BAD)
        row_of = dict(zip(manifest.ids(used).tolist(), used.tolist(), strict=True))
        texts = {}
        for name in names:
            cells = further[name].to_pylist()
            kept = [None if cells[row] is None else str(cells[row]) for row in row_of.values()]
            texts[name] = pa.array(kept, pa.string())
        with replacing(path) as stream:
            parquet.write_table(pa.table({"id": pa.array(list(row_of), pa.string()), **texts}), stream)
    for other in run_root.glob("columns-*.parquet"):
        if other != path or not names:
            other.unlink(missing_ok=True)
