"""Log to TensorBoard what a run does not write there anyway: recipe, result, and a comparison's report."""

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
# Endings of files that TensorBoard shows as text, each with the Markdown that shows the content.
SHOWN = {".md": "{}", ".yaml": "```yaml\n{}\n```"}


class TensorBoardTracker:
    """Logs to TensorBoard; an entry is an event file beside the one of the curves."""

    def open(self, entry: Entry) -> str:
        """Begin a new event file, also to go on with an entry, and return the name of its folder."""
        folder = entry.folder / "tensorboard"
        folder.mkdir(parents=True, exist_ok=True)
        # Event files are named by the second: without a suffix this might be the file of the curves.
        self._events = EventsWriter(str(folder / "events"), filename_suffix=f".{time.time_ns()}")
        return folder.name

    def settings(self, values: Mapping[str, object]) -> None:
        """Log the values as a Markdown table."""
        rows = "\n".join(f"| {key} | {value} |" for key, value in values.items())
        self._write(text("settings", f"| key | value |\n|---|---|\n{rows}"), 0)

    def progress(self, values: Mapping[str, float], step: int) -> None:
        """Do nothing: the training loop writes the curves itself."""

    def result(self, values: Mapping[str, float], step: int) -> None:
        """Log the values as scalars, those without a folder in their name below ``result/``."""
        for key, value in values.items():
            self._write(scalar(key if "/" in key else f"result/{key}", value), step)

    def attach(self, file: Path) -> None:
        """Log the content of Markdown and YAML files as text; ignore other files."""
        if file.suffix in SHOWN:
            self._write(text(file.stem, SHOWN[file.suffix].format(file.read_text(encoding="utf-8"))), 0)

    def close(self, *, finished: bool) -> None:
        """Close the event file."""
        self._events.close()

    def _write(self, summary: Any, step: int) -> None:
        self._events.write_event(Event(wall_time=time.time(), step=step, summary=summary))


TRACKER = TensorBoardTracker
