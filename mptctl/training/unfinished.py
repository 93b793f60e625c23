"""Trains the unfinished runs of a study or search in one process, and keeps the error that stops one."""

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
    """Train those of some runs that are not finished: one alone, several in lock-step.

    Waits for another process that holds one of the folders: it may be dying, and its run is then resumed.

    Args:
        folders: of the runs.
        request_of: the request for a run, made once its folder is free.
        observer_of: the observer of a run.

    Returns:
        By folder, the error that ended a run early; `Stopped` after a signal. An error that is not of one run
        stands for all that were left.
    """
    # All of them, until it is known which are finished: an error before that is every run's.
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
    except Exception as error:  # whatever it is, it is the end of these runs, and not of who asked for them
        return dict.fromkeys(left, error)
    return {folder: end for folder, end in zip(left, ended, strict=True) if isinstance(end, Exception)}


def write_traceback(path: Path, error: Exception) -> None:
    """Write the traceback of an unexpected error to a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(traceback.format_exception(error)), encoding="utf-8")
