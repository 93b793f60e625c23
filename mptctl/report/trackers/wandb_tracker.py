"""Log to Weights & Biases: to its server, or offline to a folder below the run root for `wandb sync`."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mptctl.report.trackers.tracker import PROJECT, Entry

# Values of WANDB_MODE that need no API key.
OFFLINE = ("offline", "dryrun", "disabled")


class WandbTracker:
    """Logs to Weights & Biases; an entry is a run of the project WANDB_PROJECT, or else ``mptctl``."""

    def __init__(self) -> None:
        import wandb

        self._wandb = wandb
        self._run: Any = None

    def open(self, entry: Entry) -> str:
        """Begin a run, or go on with the one that the entry names, and return its id.

        Offline, a run that goes on has a folder for each part, which `wandb sync` joins by the id.

        Raises:
            RuntimeError: there is no API key, and WANDB_MODE is not offline.
        """
        if os.environ.get("WANDB_MODE") not in OFFLINE and not self._wandb.login(prompt=False):
            raise RuntimeError("no API key: type wandb login first, or set WANDB_MODE=offline")
        self._run = self._wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=entry.name,
            id=entry.known_as or uuid.uuid4().hex[:12],
            resume="allow",
            dir=str(entry.root),
            # Silent, since standard output may be one JSON object; the terminal's output is not recorded.
            settings=self._wandb.Settings(silent=True, console="off"),
        )
        return str(self._run.id)

    def settings(self, values: Mapping[str, object]) -> None:
        """Add the values to the config of the run."""
        self._run.config.update(dict(values))

    def progress(self, values: Mapping[str, float], step: int) -> None:
        """Log the values to the history of the run."""
        self._run.log(dict(values), step=step)

    def result(self, values: Mapping[str, float], step: int) -> None:
        """Add the values to the summary of the run."""
        self._run.summary.update(dict(values))

    def attach(self, file: Path) -> None:
        """Copy the file among the files of the run, and upload it."""
        copy = Path(self._run.dir) / file.name
        shutil.copyfile(file, copy)
        self._run.save(str(copy), base_path=self._run.dir, policy="now")

    def close(self, *, finished: bool) -> None:
        """End the run, with exit code 0 if it is finished and else 1."""
        self._run.finish(exit_code=0 if finished else 1)


TRACKER = WandbTracker
