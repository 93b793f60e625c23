"""A process of Ray's that trains one run of a study after the other, and ends when whoever started it has ended."""

from __future__ import annotations

import os
import threading
import time
import traceback
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

    def train(self, run: PlannedRun) -> Outcome:
        """Train a run, or go on with it, and keep its answers.

        Whatever keeps it from its end is an outcome, not an exception.
        """
        folder = RunDir(self._run_root / run.key)
        try:
            wait_until_free(folder.path)
            split = load_split(self._run_root / run.place)
            if not folder.is_finished():
                train(run.request(split), Silent())
            run_answers(folder.path, split=split, device=run.recipe.runtime.device)
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
        finally:
            if torch.cuda.is_available():
                torch.cuda.empty_cache()  # the next run may be another's
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
