"""Weights & Biases: its server, or with WANDB_MODE=offline a folder below the run root for `wandb sync`."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mptctl.report.trackers.tracker import PROJECT, Entry

PACKAGE = "wandb"
OFFLINE = ("offline", "dryrun", "disabled")


class WandbTracker:
    """An entry is a run of the project WANDB_PROJECT, or else ``mptctl``."""

    def __init__(self) -> None:
        import wandb

        self._wandb = wandb
        self._run: Any = None

    def open(self, entry: Entry) -> str:
        """Begin a run, or go on with it: offline both are folders of one id, which `wandb sync` joins."""
        if os.environ.get("WANDB_MODE") not in OFFLINE and not self._wandb.login(prompt=False):
            raise RuntimeError("no API key: type wandb login first, or set WANDB_MODE=offline")
        self._run = self._wandb.init(
            project=os.environ.get("WANDB_PROJECT", PROJECT),
            name=entry.name,
            id=entry.known_as or uuid.uuid4().hex[:12],
            resume="allow",
            dir=str(entry.root),
            # Quiet, since standard output may be one object of JSON; and nothing of the terminal is recorded.
            settings=self._wandb.Settings(silent=True, console="off"),
        )
        return str(self._run.id)

    def settings(self, values: Mapping[str, object]) -> None:
        """The run's config."""
        self._run.config.update(dict(values))

    def progress(self, values: Mapping[str, float], step: int) -> None:
        """A point of the run's history; one of the same step adds to it."""
        self._run.log(dict(values), step=step)

    def result(self, values: Mapping[str, float], step: int) -> None:
        """The run's summary."""
        self._run.summary.update(dict(values))

    def attach(self, file: Path) -> None:
        """A copy among the run's files, which are sent with it."""
        copy = Path(self._run.dir) / file.name
        shutil.copyfile(file, copy)
        self._run.save(str(copy), base_path=self._run.dir, policy="now")

    def close(self, *, finished: bool) -> None:
        """End the run."""
        self._run.finish(exit_code=0 if finished else 1)


TRACKER = WandbTracker
