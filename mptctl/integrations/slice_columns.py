"""The columns by which samples of a Python call are sliced: of frames, of files, and of metadata."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mptctl.errors import UsageError
from mptctl.evaluation.gate.gate_file import GateFile
from mptctl.evaluation.reading.frames import column_names, is_frame, no_column, write_columns
from mptctl.evaluation.slices.ranking import SliceRequest
from mptctl.evaluation.slices.source import CLASS, CONFIDENCE
from mptctl.files.scratch import scratch_folder


@dataclass(frozen=True, eq=False, kw_only=True)
class SliceColumns:
    """Where the columns of slices are looked for: in this order in frames, in metadata, and in files.

    Attributes:
        keys: columns of each slicing that is asked for.
        frames: frames with the (N,) ids of their rows.
        metadata: a frame, or a path as for `mptctl evaluate --metadata`; None without one.
        id_name: name of the column with ids in a frame of metadata.
        files: predictions files.
    """

    keys: Sequence[tuple[str, ...]]
    frames: Sequence[tuple[Any, NDArray[np.str_]]] = ()
    metadata: Any = None
    id_name: str = "id"
    files: Sequence[Path] = ()

    @contextmanager
    def request(self, rules: GateFile) -> Iterator[SliceRequest]:
        """Write the wanted columns to temporary files, and make the request for slices by them.

        The files are removed when the ``with`` block ends.

        Args:
            rules: gate file, which may need further columns.

        Raises:
            UsageError: a wanted column is nowhere, or metadata is neither a frame nor a path.
        """
        wanted = list(dict.fromkeys(name for key in (*self.keys, *rules.keys()) for name in key))
        if not wanted:
            yield SliceRequest()
            return
        with scratch_folder() as scratch:
            yield SliceRequest(by=self.keys, files=[*self._write(scratch, wanted), *self.files])

    def _write(self, scratch: Path, wanted: Sequence[str]) -> list[Path]:
        """Write the wanted columns of frames and metadata into a folder; return the files.

        A column is taken from the first frame that has it. Metadata that is a file is returned as it is.
        """
        known: list[str] = []
        files: list[Path] = []
        for number, (frame, ids) in enumerate(self.frames):
            taken = [name for name in wanted if name in column_names(frame) and name not in known]
            known += column_names(frame)
            if taken:
                files.append(scratch / f"columns{number}.parquet")
                write_columns(files[-1], frame, taken, ids, self.id_name)
        if isinstance(self.metadata, str | Path):
            return [*files, Path(self.metadata)]
        if self.metadata is not None:
            names = self._columns_of_metadata()
            known += names
            id_column = self.id_name if self.id_name in names else "id"
            taken = [name for name in wanted if name in names and name != id_column]
            if taken:
                files.append(scratch / "metadata.parquet")
                write_columns(files[-1], self.metadata, taken, None, id_column)
        if known and not self.files:  # columns of files are checked where the files are read
            for name in wanted:
                if name not in {*known, CLASS, CONFIDENCE}:
                    raise no_column(name, known, "by")
        return files

    def _columns_of_metadata(self) -> list[str]:
        """The names of the columns of metadata; UsageError if it is no frame."""
        if not is_frame(self.metadata):
            raise UsageError("metadata: neither a frame of pandas, polars or Arrow nor the path of a file")
        return column_names(self.metadata)
