"""A process of Ray's that trains runs of a study one after the other, and ends when whoever started it has ended."""

from __future__ import annotations

import os
import threading
import time
import traceback
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import ray
import torch

from mptctl.data.split import load_split
from mptctl.errors import MptctlError, Stopped, one_line
from mptctl.models.lock import wait_until_free
from mptctl.models.run_folder import RunDir
from mptctl.studies.answers import run_answers
from mptctl.studies.study_plan import PlannedRun
from mptctl.training.lockstep import Ended, train_in_lockstep
from mptctl.training.observer import Silent
from mptctl.training.train import train

# Seconds between two looks whether the parent is still there; it must end within two seconds of the study's death.
LOOK_EVERY = 0.25


@dataclass(frozen=True)
class Outcome:
    """How a run ended.

    Attributes:
        status: whether it came to its end, was stopped by a signal after saving, or failed.
        error: why it failed.
    """

    status: Literal["done", "stopped", "failed"]
    error: str | None = None


class StudyWorker:
    """Trains what it is given, in the main thread of its process, where SIGTERM makes a run save and stop.

    Args:
        run_root: of the study; a cluster's machines share it.
    """

    def __init__(self, run_root: Path) -> None:
        self._run_root = run_root
        threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()

    def where(self) -> tuple[str, int]:
        """On which of Ray's machines it is, and the number of its process."""
        return ray.get_runtime_context().get_node_id(), os.getpid()

    def train(self, runs: Sequence[PlannedRun]) -> list[Outcome]:
        """Train a run, or several in lock-step, or go on with them, and keep their answers.

        Whatever keeps one from its end is an outcome, not an exception.
        """
        try:
            ended = self._train(runs)
            return [self._outcome(run, ended.get(run.key)) for run in runs]
        finally:
            if torch.cuda.is_available():
                torch.cuda.empty_cache()  # the next runs may be another's

    def _train(self, runs: Sequence[PlannedRun]) -> dict[str, Ended]:
        """Train what is not finished; why runs ended early, by their keys."""
        try:
            for run in runs:
                wait_until_free(self._run_root / run.key)
            left = [run for run in runs if not RunDir(self._run_root / run.key).is_finished()]
            requests = [run.request(load_split(self._run_root / run.place)) for run in left]
            if len(left) == 1:
                train(requests[0], Silent())
            elif left:
                ended = train_in_lockstep(requests, [Silent() for _ in left])
                return {run.key: each for run, each in zip(left, ended, strict=True)}
        except Exception as error:
            return {run.key: error for run in runs}
        return {}

    def _outcome(self, run: PlannedRun, ended: Ended | None) -> Outcome:
        """Ask a run that came to its end for its answers."""
        try:
            if isinstance(ended, Exception):
                raise ended
            split = load_split(self._run_root / run.place)
            run_answers(self._run_root / run.key, split=split, device=run.recipe.runtime.device)
        except Stopped:
            return Outcome("stopped")
        except MptctlError as error:
            return Outcome("failed", one_line(error)[:500])
        except Exception as error:
            path = error_file(self._run_root, run)
            path.write_text(traceback.format_exc(), encoding="utf-8")
            return Outcome(
                "failed", f"unexpected {type(error).__name__}: {one_line(error)[:300]}; see {path}"
            )
        return Outcome("done")


def error_file(run_root: Path, run: PlannedRun) -> Path:
    """Where a run that fails for an unexpected reason says so; beside its folder, which holds a run's files alone."""
    return run_root / run.place / f"{run.name.replace('/', '-')}.error.txt"


def _end_with(parent: int) -> None:
    """End this process when its parent has ended, whatever it is doing.

    Ray's own watch is in the thread that a long step keeps busy.
    """
    while os.getppid() == parent:
        time.sleep(LOOK_EVERY)
    os._exit(1)
