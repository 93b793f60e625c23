"""Reads and writes ``metrics.jsonl``, the log to which a run appends a line after each event."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError

from mptctl.errors import CheckpointError, one_line
from mptctl.files import Model, storage_error, write_atomically
from mptctl.models.records import Adjustment


class MetricsLine(Model):
    """A line of ``metrics.jsonl``; fields that do not apply are left out."""

    event: Literal["step", "epoch", "checkpoint", "adjust", "done"] = Field(
        description="step: means since the line before; epoch: validation; checkpoint; adjust: validation; "
        "done"
    )
    epoch: int = Field(description="counted from 1")
    step: int = Field(description="optimizer steps done in all")
    lr: float | None = Field(None, description="learning rate of the last step")
    terms: dict[str, float] | None = Field(None, description="loss and its parts, each as it enters the loss")
    train_error: float | None = Field(
        None, description="part of training pictures that the student got wrong"
    )
    images_per_s: float | None = Field(None, description="training speed")
    data_wait: float | None = Field(None, description="part of the time that the model waited for pictures")
    val_error: float | None = Field(
        None, description="on validation samples of all classes that the model knows"
    )
    val_error_old: float | None = Field(None, description="on validation samples of old classes")
    val_nfr: float | None = Field(None, description="negative flips / validation samples of old classes")
    val_errors: int | None = Field(None, description="wrong predictions on validation samples")
    val_samples: int | None = Field(
        None, description="validation samples of the classes that the model knows"
    )
    val_errors_old: int | None = Field(
        None, description="wrong predictions on validation samples of old classes"
    )
    val_samples_old: int | None = Field(None, description="validation samples of old classes")
    val_flips: int | None = Field(None, description="negative flips on validation samples of old classes")
    k: float | None = Field(
        None, description="bias on the logits of new classes in the epoch, where it is moved to keep a budget"
    )
    adjustment: Adjustment | None = Field(None, description="what `adjust` changed, where it wrote the run")
    total_steps: int | None = Field(None, description="optimizer steps of the whole run")
    seconds_left: float | None = Field(None, description="expected time to the end of the run")


def append_metrics(path: Path, line: MetricsLine) -> None:
    """Append one line to a log; fields that are None are left out.

    Raises:
        StorageError: the disk is full, or the file cannot be written.
    """
    try:
        with open(path, "a", encoding="utf-8") as file:
            file.write(line.model_dump_json(exclude_none=True) + "\n")
    except OSError as error:
        raise storage_error(path, error) from error


def read_metrics(path: Path) -> list[MetricsLine]:
    """Read all lines of a log; an empty list without a file. A last line cut short by a kill is left out.

    Raises:
        CheckpointError: the file is not UTF-8, or a line cannot be parsed.
    """
    if not path.exists():
        return []
    try:
        content = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise CheckpointError(
            f"{path}: cannot be read: it is no UTF-8 text ({one_line(error)}); put back the one that was "
            "written, or train the run again"
        ) from error
    return parse_metrics(content, path)


def ends_as_finished(lines: Sequence[MetricsLine]) -> bool:
    """Tell whether a log's last line is ``done``, as in a finished run that was not resumed."""
    return bool(lines) and lines[-1].event == "done"


def best_epoch(lines: Sequence[MetricsLine], first: int = 0) -> MetricsLine | None:
    """The line of the epoch that ``best.pt`` keeps: the lowest validation error, of equal ones the latest.

    Args:
        lines: of the log.
        first: first epoch to consider, counted from 0.

    Returns:
        None if no epoch was validated.
    """
    latest_first = reversed(_validated_epochs(lines, first))
    return min(latest_first, key=lambda line: line.val_error or 0.0, default=None)


def epochs_without_gain(lines: Sequence[MetricsLine], first: int = 0) -> int:
    """Number of epochs after the first epoch of lowest validation error; 0 if none was validated.

    Args:
        lines: of the log.
        first: first epoch to consider, counted from 0.
    """
    epochs = _validated_epochs(lines, first)
    if not epochs:
        return 0
    return epochs[-1].epoch - min(epochs, key=lambda line: line.val_error or 0.0).epoch


def planned_epochs(lines: Sequence[MetricsLine]) -> int:
    """Number of epochs that a run plans, at least those that it validated; 0 if none was validated.

    An epoch counts twice if it was validated twice: the run ended in its middle, and was made longer.
    """
    steps = [line.step for line in lines if line.event == "epoch"]
    if not steps:
        return 0
    total_steps = max(line.total_steps or 0 for line in lines)
    steps_per_epoch = max(later - earlier for earlier, later in pairwise([0, *steps]))
    return max(len(steps), math.ceil(total_steps / max(1, steps_per_epoch)))


def _validated_epochs(lines: Sequence[MetricsLine], first: int) -> list[MetricsLine]:
    """The lines of validated epochs, from epoch ``first`` (counted from 0) on."""
    return [
        line for line in lines if line.event == "epoch" and line.epoch > first and line.val_error is not None
    ]


def parse_metrics(content: str, path: Path) -> list[MetricsLine]:
    """Parse the lines of a log; text after the last line break, cut short by a kill, is left out.

    Args:
        content: of the file.
        path: of the file, for messages.

    Raises:
        CheckpointError: a line cannot be read.
    """
    lines = []
    whole = content[: content.rfind("\n") + 1]
    for number, text in enumerate(whole.splitlines(), start=1):
        try:
            lines.append(MetricsLine.model_validate_json(text))
        except ValidationError as error:
            raise CheckpointError(
                f"{path}: line {number} cannot be read; put back the file that was written, or delete that "
                "line"
            ) from error
    return lines


def steps_logged_after(path: Path, step: int) -> int:
    """Number of steps from ``step`` to a log's last one; negative if the log ends before, 0 without lines."""
    return max((line.step for line in read_metrics(path)), default=step) - step


def truncate_metrics(path: Path, step: int, *, validated: bool) -> None:
    """Rewrite a log without the lines that a run resumed from a checkpoint will write again.

    Lines of later steps go, ``done`` goes, and without ``validated`` the epoch line of ``step`` itself.

    Args:
        path: of the log.
        step: optimizer steps done in the checkpoint.
        validated: the checkpoint was saved after the validation of its step.
    """

    def is_written_again(line: MetricsLine) -> bool:
        is_own_validation = line.event == "epoch" and line.step == step
        return line.step > step or line.event == "done" or (is_own_validation and not validated)

    kept = [line for line in read_metrics(path) if not is_written_again(line)]
    text = "".join(line.model_dump_json(exclude_none=True) + "\n" for line in kept)
    write_atomically(path, text.encode())
