"""Further columns of a table or of shards, kept beside their split: what slices and weights may ask for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from mptctl.data.manifest import BAD, Manifest
from mptctl.files import replacing


def columns_path(run_root: Path, manifest_fingerprint: str) -> Path:
    """The file of a split's further columns, whether or not it is there."""
    return run_root / f"columns-{manifest_fingerprint[:16]}.parquet"


def keep_columns(further: Mapping[str, Sequence[Any]], manifest: Manifest, run_root: Path) -> None:
    """Write further columns by id, all as text, and remove those of earlier splits.

    Args:
        further: by name, one value a row of the manifest; none removes earlier ones only.
        manifest: of the pictures. Of an id in two parts the row of the test part is kept.
        run_root: the folder of the split.

    Raises:
        StorageError: the file cannot be written.
    """
    path = columns_path(run_root, manifest.fingerprint)
    if further := {name: cells for name, cells in further.items() if name != "id"}:
        import pyarrow as pa
        from pyarrow import parquet

        used = np.flatnonzero(manifest.parts != BAD)
        row_of = dict(zip(manifest.ids(used).tolist(), used.tolist(), strict=True))
        texts = {
            name: pa.array(
                [None if cells[row] is None else str(cells[row]) for row in row_of.values()], pa.string()
            )
            for name, cells in further.items()
        }
        with replacing(path) as stream:
            parquet.write_table(pa.table({"id": pa.array(list(row_of), pa.string()), **texts}), stream)
    for other in run_root.glob("columns-*.parquet"):
        if other != path or not further:
            other.unlink(missing_ok=True)
