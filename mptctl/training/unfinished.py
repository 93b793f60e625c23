"""Trains a run of a study or search in a process of Ray's, and returns the error that ends it."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from pathlib import Path

from mptctl.models.lock import wait_until_free
from mptctl.models.run_folder import RunDir
from mptctl.training.observer import Observer
from mptctl.training.request import RunRequest
from mptctl.training.train import train


def train_unfinished(
    folder: Path, make_request: Callable[[], RunRequest], observer: Observer
) -> Exception | None:
    """Train a run unless it is finished. Raises no error.

    First waits until no other process holds the folder.

    Args:
        folder: of the run.
        make_request: makes the request for the run.
        observer: of the run.

    Returns:
        The error of a run that did not end well; `Stopped` after a signal; else None.
    """
    try:
        wait_until_free(folder)
        if not RunDir(folder).is_finished():
            train(make_request(), observer)
    except Exception as error:  # any error ends this run alone, and not the study
        return error
    return None


def write_traceback(path: Path, error: Exception) -> None:
    """Write the traceback of an unexpected error to a file; makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
