"""Answer requests with the model in production, and log beside its prediction that of its replacement.

Each day gets a folder with two predictions files of Parquet parts, which `nightly.sh` reads.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow import parquet

# A model: takes a request, returns logits.
Model = Callable[[Any], Sequence[float]]


class Shadow:
    """Two models behind one service.

    Args:
        old, new: the models.
        classes: of the logits, by role, ``old`` and ``new``.
        folder: of one day's log.
        rows: requests of a part.
    """

    def __init__(
        self, old: Model, new: Model, classes: dict[str, list[str]], folder: Path, rows: int = 10_000
    ) -> None:
        self.models, self.classes, self.folder, self.rows = {"old": old, "new": new}, classes, folder, rows
        self._log: dict[str, list[dict[str, Any]]] = {"old": [], "new": []}
        self._parts = 0

    def answer(self, sample: str, request: Any) -> str:
        """Return the prediction of the old model; `sample` is the id by which its picture is found again."""
        preds = {}
        for role, model in self.models.items():
            logits, classes = list(model(request)), self.classes[role]
            preds[role] = classes[logits.index(max(logits))]
            self._log[role].append({"id": sample, "pred": preds[role], "classes": classes})
        if len(self._log["old"]) == self.rows:
            self.flush()
        return preds["old"]

    def flush(self) -> None:
        """Write what is logged so far as a part of each model's predictions."""
        if not self._log["old"]:
            return
        for role, rows in self._log.items():
            (self.folder / role).mkdir(parents=True, exist_ok=True)
            parquet.write_table(
                pa.Table.from_pylist(rows), self.folder / role / f"part-{self._parts:05d}.parquet"
            )
        self._log, self._parts = {"old": [], "new": []}, self._parts + 1
