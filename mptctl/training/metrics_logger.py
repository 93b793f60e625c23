"""Writes a run's progress to metrics.jsonl and a TensorBoard file; sums of steps are kept on the device."""

from __future__ import annotations

import math
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import torch
from tensorboardX.event_file_writer import EventsWriter
from tensorboardX.proto.event_pb2 import Event, SessionLog
from tensorboardX.summary import scalar
from torch import Tensor

from mptctl.files import storage_error
from mptctl.methods.method import COUNTS
from mptctl.models.metrics_log import MetricsLine, append_metrics
from mptctl.models.records import VALIDATION_COUNTS, Validation
from mptctl.training.observer import Observer
from mptctl.training.run import Run

# Seconds between two lines of progress; writing a line waits for the device once.
PROGRESS_SECONDS = 1.0

# Fields of a line that are no scalars of the TensorBoard file, or have other names there.
NOT_DRAWN = ("event", "epoch", "step", "terms", "seconds_left", "total_steps")


@dataclass
class _Steps:
    """The steps since the last line.

    Attributes:
        sums: sum of each term of the loss, on the device.
        count: number of steps.
        rows: number of pictures, over all workers.
        rate: learning rate of the last step.
        waited: seconds spent waiting for batches.
        since: monotonic time of the last line.
    """

    sums: dict[str, Tensor] = field(default_factory=dict)
    count: int = 0
    rows: int = 0
    rate: float = 0.0
    waited: float = 0.0
    since: float = field(default_factory=time.monotonic)


class MetricsLogger:
    """Sums up the terms of steps on the device, and writes lines of progress on the main worker.

    Args:
        run: the trainer changes its state in place.
        observer: told each line that is written.

    Raises:
        StorageError: the TensorBoard file cannot be written.
    """

    def __init__(self, run: Run, observer: Observer) -> None:
        self.run = run
        self.state = run.state
        self.observer = observer
        self.writer: TensorBoardFile | None = None
        if run.group.is_main:
            # Hide the steps after the checkpoint that the run resumes from: they are computed again.
            self.writer = TensorBoardFile(run.folder.tensorboard, purge_step=run.state.global_step + 1)
        self._taken = _Steps()

    def step(self, terms: dict[str, Tensor], rate: float, rows: int, waited: float) -> bool:
        """Add one step, and tell whether a line is due; writes nothing.

        Args:
            terms: of the loss, as `train_step` returns them.
            rate: learning rate of the step.
            rows: number of pictures of the global batch.
            waited: seconds spent waiting for the batch.
        """
        taken = self._taken
        # The first are copied: the next step of a captured graph overwrites them.
        taken.sums = {n: taken.sums[n] + t if taken.sums else t.clone() for n, t in terms.items()}
        taken.count += 1
        taken.rows += rows
        taken.rate = rate
        taken.waited += waited
        return time.monotonic() - taken.since >= PROGRESS_SECONDS

    def flush(self) -> None:
        """Write a line on the steps since the last one, if any; waits for the device and for all workers."""
        taken = self._taken
        if not taken.count:
            return
        names = sorted(taken.sums)
        # Summed on the device: NCCL cannot sum tensors on the host.
        sums = self.run.group.sum(torch.stack([taken.sums[n].double() for n in names]).float())
        values = dict(zip(names, sums.tolist(), strict=True))
        seconds = max(time.monotonic() - taken.since, 1e-9)
        left = self.run.total_steps - self.state.global_step
        divisor = taken.count * self.run.group.size
        line = MetricsLine(
            event="step",
            epoch=self.state.epoch + 1,
            step=self.state.global_step,
            lr=taken.rate,
            terms={n: v / divisor for n, v in values.items() if n not in COUNTS.values()},
            train_error=1.0 - values[COUNTS["student"]] / taken.rows,
            images_per_s=taken.rows / seconds,
            data_wait=min(1.0, taken.waited / seconds),
            seconds_left=left * seconds / taken.count,
            total_steps=self.run.total_steps,
        )
        self._write(line)
        self._taken = _Steps()

    def event(
        self, event: Literal["epoch", "checkpoint", "done"], validation: Validation | None = None
    ) -> None:
        """Write the line of an event: an epoch ended, a checkpoint was saved, or the run is done."""
        path = self.state.bias_path if event == "epoch" else None
        self._write(
            MetricsLine(
                event=event,
                epoch=max(1, math.ceil(self.state.global_step / self.run.train.steps_per_epoch)),
                step=self.state.global_step,
                k=path.epochs[-1].k if path is not None else None,
                **(validation.figures() if validation else {}),
            )
        )

    def close(self) -> None:
        """Close the TensorBoard file."""
        if self.writer is not None:
            self.writer.close()

    def _write(self, line: MetricsLine) -> None:
        """Write a line to both files and tell the observer; on the main worker alone."""
        if self.writer is None:
            return
        append_metrics(self.run.folder.metrics, line)
        scalars = line.model_dump(exclude_none=True, exclude={*NOT_DRAWN, *VALIDATION_COUNTS})
        terms = {f"terms/{name}": value for name, value in (line.terms or {}).items()}
        self.writer.scalars({**scalars, **terms}, line.step)
        self.observer.line(line)


class TensorBoardFile:
    """The TensorBoard file that one process of a run writes.

    It replaces tensorboardX's own writer. That one writes in a thread, where errors are lost, and waits for
    ever once its queue is full.

    Args:
        folder: for the file; made if it does not exist.
        purge_step: TensorBoard hides steps from this one on that an earlier process of the run wrote.

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
        """Write the values of one step by their names.

        Raises:
            StorageError: the disk is full, or the file cannot be written.
        """
        now = time.time()
        self._write([Event(wall_time=now, step=step, summary=scalar(n, v)) for n, v in values.items()])

    def close(self) -> None:
        """Close the file; errors are ignored, since a failed write has raised before."""
        with suppress(OSError, ValueError):  # ValueError: a failed write has closed it
            self._events.close()

    def _write(self, events: list[Event]) -> None:
        """Write events to the disk; if that fails, close the file and raise StorageError."""
        try:
            for event in events:
                self._events.write_event(event)
            self._events.flush()
        except OSError as error:
            self.close()
            raise storage_error(self.folder / "events", error) from error
