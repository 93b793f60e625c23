"""Trains the unfinished runs of a study or search in one process, and returns the errors that end them."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Sequence
from pathlib import Path

from mptctl.models.lock import wait_until_free
from mptctl.models.run_folder import RunDir
from mptctl.training.lockstep import train_in_lockstep
from mptctl.training.observer import Observer
from mptctl.training.request import RunRequest
from mptctl.training.train import train


def train_unfinished(
    folders: Sequence[Path],
    request_of: Callable[[Path], RunRequest],
    observer_of: Callable[[Path], Observer],
) -> dict[Path, Exception]:
    """Train the runs that are not finished: a single one by itself, several in lock-step.

    First waits until no other process holds one of the folders. Raises no error.

    Args:
        folders: of the runs, finished or not.
        request_of: makes the request for the run in a folder.
        observer_of: makes the observer of the run in a folder.

    Returns:
        The error of each run that did not end well, by folder; `Stopped` after a signal. An error that
        belongs to no single run is given for all runs that were left.
    """
    # An error before it is known which runs are finished is given for all.
    left = list(folders)
    try:
        for folder in folders:
            wait_until_free(folder)
        left = [folder for folder in folders if not RunDir(folder).is_finished()]
        requests = [request_of(folder) for folder in left]
        observers = [observer_of(folder) for folder in left]
        if len(left) == 1:
            train(requests[0], observers[0])
            return {}
        ended = train_in_lockstep(requests, observers) if left else []
    except Exception as error:  # any error ends these runs alone, and not the study
        return dict.fromkeys(left, error)
    return {folder: end for folder, end in zip(left, ended, strict=True) if isinstance(end, Exception)}


def write_traceback(path: Path, error: Exception) -> None:
    """Write the traceback of an unexpected error to a file; makes its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
