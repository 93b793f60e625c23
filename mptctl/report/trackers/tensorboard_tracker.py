"""TensorBoard: a run always writes its curves; this adds its recipe, its result, a comparison's page."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event
from tensorboardX.summary import scalar, text

from mptctl.report.trackers.tracker import Entry

PACKAGE = "tensorboardX"
# Files that TensorBoard shows as text, those that are Markdown as such.
SHOWN = {".md": "{}", ".yaml": "```yaml\n{}\n```"}


class TensorBoardTracker:
    """An entry is a file beside that of the curves."""

    def open(self, entry: Entry) -> str:
        """Begin a file; what goes on is one more file."""
        folder = entry.folder / "tensorboard"
        folder.mkdir(parents=True, exist_ok=True)
        # A name of its own: the file of the curves may be begun in the same second, of which its name is
        # made.
        self._events = EventsWriter(str(folder / "events"), filename_suffix=f".{time.time_ns()}")
        return folder.name

    def settings(self, values: Mapping[str, object]) -> None:
        """A table."""
        rows = "\n".join(f"| {key} | {value} |" for key, value in values.items())
        self._write(text("settings", f"| key | value |\n|---|---|\n{rows}"), 0)

    def progress(self, values: Mapping[str, float], step: int) -> None:
        """Nothing: the training loop writes the curves itself."""

    def result(self, values: Mapping[str, float], step: int) -> None:
        """Scalars below ``result/``."""
        for key, value in values.items():
            self._write(scalar(key if "/" in key else f"result/{key}", value), step)

    def attach(self, file: Path) -> None:
        """Markdown and YAML as text; it shows no other files."""
        if file.suffix in SHOWN:
            self._write(text(file.stem, SHOWN[file.suffix].format(file.read_text(encoding="utf-8"))), 0)

    def close(self, *, finished: bool) -> None:
        """Close the file."""
        self._events.close()

    def _write(self, summary: Any, step: int) -> None:
        self._events.write_event(Event(wall_time=time.time(), step=step, summary=summary))


TRACKER = TensorBoardTracker
