"""Trains a run of a study or search in a process of Ray's, and writes down an unexpected error."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

from mptctl.models.lock import wait_until_free
from mptctl.models.run_folder import RunDir
from mptctl.training.observer import Observer
from mptctl.training.request import RunRequest
from mptctl.training.train import train


def train_unfinished(folder: Path, make_request: Callable[[], RunRequest], observer: Observer) -> None:
    """Train a run unless it is finished, once no other process holds its folder.

    Args:
        folder: of the run.
        make_request: makes the request for the run.
        observer: of the run.

    Raises:
        Stopped: a signal came.
        Exception: as `train`.
    """
    wait_until_free(folder)
    if not RunDir(folder).is_finished():
        train(make_request(), observer)


def write_traceback(path: Path, error: Exception) -> None:
    """Write the traceback of an unexpected error to a file; makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
