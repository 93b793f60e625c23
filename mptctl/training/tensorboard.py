"""The TensorBoard file of a run: written at once, so that a full disk is found where it can be said."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.summary import scalar

from mptctl.files import storage_error


class TensorBoardFile:
    """Scalars of one process of a run.

    tensorboardX's own writer writes in a thread: its errors are lost there, and once its queue is full, it waits for
    ever.

    Args:
        folder: for the file; made where there is none.
        purge_step: TensorBoard hides what an earlier process of the run wrote from this step on.

    Raises:
        StorageError: the disk is full, or the folder cannot be written.
    """

    def __init__(self, folder: Path, purge_step: int) -> None:
        self.folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            self._events = EventsWriter(str(folder / "events"))
        except OSError as error:
            raise storage_error(folder / "events", error) from error
        start = Event(wall_time=time.time(), step=purge_step, session_log=SessionLog(status=SessionLog.START))
        self._write([start])

    def scalars(self, values: dict[str, float], step: int) -> None:
        """Write values by their names.

        Raises:
            StorageError: as above.
        """
        now = time.time()
        self._write([Event(wall_time=now, step=step, summary=scalar(n, v)) for n, v in values.items()])

    def close(self) -> None:
        """Close the file. What could not be written was said before."""
        with suppress(OSError, ValueError):  # ValueError: it was closed where that was said
            self._events.close()

    def _write(self, events: list[Event]) -> None:
        try:
            for event in events:
                self._events.write_event(event)
            self._events.flush()
        except OSError as error:
            self.close()
            raise storage_error(self.folder / "events", error) from error
