"""The run folder: what is in it, who may write it, and how a run is found again."""

from __future__ import annotations

import contextlib
import platform
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from mptctl.errors import CheckpointError
from mptctl.files import link_or_copy, storage_error, write_atomically
from mptctl.machine.facts import git_commit, versions
from mptctl.models.lock import locked, refuse_unusable
from mptctl.models.ownership import RUN, remove_own

if TYPE_CHECKING:
    import torch


class EnvironmentFile(BaseModel):
    """``environment.json``: what computed the run."""

    model_config = ConfigDict(frozen=True)

    command: list[str] = Field(description="the command line, as it was given")
    started: str = Field(description="local time of the start, ISO 8601")
    versions: dict[str, str] = Field(description="of Python and of the packages that compute")
    device: str = Field(description="the device's own name")
    cpu_threads: int = Field(description="threads of torch")
    git_commit: str | None = Field(description="of the checkout that the code ran from, where there is one")


class MetricsLine(BaseModel):
    """One line of ``metrics.jsonl``; what does not apply is left out."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    event: Literal["step", "epoch", "checkpoint", "done"] = Field(
        description="step: means since the line before; epoch: validation; checkpoint; done"
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
    seconds_left: float | None = Field(None, description="expected time to the end of the run")


class RunDir:
    """One run's folder.

    Attributes:
        path: of the folder. ``best`` (what `evaluate` takes), ``last`` and ``previous`` (what ``--resume`` takes),
            ``recipe``, ``split``, ``metrics``, ``environment`` are the files in it.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.best = path / "best.pt"
        self.last = path / "last.pt"
        self.previous = path / "previous.pt"
        self.recipe = path / "recipe.yaml"
        self.split = path / "split.json"
        self.metrics = path / "metrics.jsonl"
        self.environment = path / "environment.json"
        self.tensorboard = path / "tensorboard"

    @contextlib.contextmanager
    def locked(self, *, resume: bool, overwrite: bool) -> Iterator[None]:
        """Make the folder, and hold it against every other process while the run goes on.

        Nothing in it is removed; with ``overwrite`` that is for `empty`.

        Raises:
            UsageError: another process trains into it; it holds a run and neither flag was given; there is a link in
                it; or it is to be overwritten and holds no run of ours.
            StorageError: it cannot be made.
        """
        with locked(self.path, RUN, resume=resume, overwrite=overwrite):
            yield

    def refuse_unusable(self, *, resume: bool, overwrite: bool) -> None:
        """Raise what `locked` would raise, without holding or changing anything."""
        refuse_unusable(self.path, RUN, resume=resume, overwrite=overwrite)

    def write_start(self, recipe_yaml: str, split_json: str | None, device: torch.device) -> None:
        """Write what the run is made of: recipe, split (an imported model may have none) and environment."""
        import torch  # here, since it takes seconds, and that a model is not there is to be said at once

        name = torch.cuda.get_device_name(device) if device.type == "cuda" else platform.processor() or "cpu"
        environment = EnvironmentFile(
            command=[Path(sys.argv[0]).name, *sys.argv[1:]],
            started=datetime.now(UTC).astimezone().isoformat(timespec="seconds"),
            versions=versions(),
            device=name,
            cpu_threads=torch.get_num_threads(),
            git_commit=git_commit(),
        )
        # The environment first: by it the folder is known as ours from then on, whenever the run is killed.
        write_atomically(self.environment, environment.model_dump_json(indent=2).encode())
        write_atomically(self.recipe, recipe_yaml.encode())
        if split_json is not None:
            write_atomically(self.split, split_json.encode())

    def append_metrics(self, line: MetricsLine) -> None:
        """Add one line to ``metrics.jsonl``."""
        try:
            with open(self.metrics, "a", encoding="utf-8") as file:
                file.write(line.model_dump_json(exclude_none=True) + "\n")
        except OSError as error:
            raise storage_error(self.metrics, error) from error

    def read_metrics(self) -> list[MetricsLine]:
        """All lines of ``metrics.jsonl``; a last line that a kill cut short is left out."""
        if not self.metrics.exists():
            return []
        lines = []
        for text in self.metrics.read_text(encoding="utf-8").splitlines():
            with contextlib.suppress(ValidationError):
                lines.append(MetricsLine.model_validate_json(text))
        return lines

    def logged_after(self, step: int) -> int:
        """How many steps ``metrics.jsonl`` has past a step."""
        return max((line.step for line in self.read_metrics()), default=step) - step

    def truncate_metrics(self, step: int, *, validated: bool) -> None:
        """Take out of ``metrics.jsonl`` what a run that is resumed from a step writes again.

        Args:
            step: lines past it go.
            validated: whether the checkpoint of that step was saved after its validation; if not, that goes too.
        """
        kept = [
            line
            for line in self.read_metrics()
            if line.step <= step
            and line.event != "done"
            and (validated or line.step < step or line.event != "epoch")
        ]
        text = "".join(line.model_dump_json(exclude_none=True) + "\n" for line in kept)
        write_atomically(self.metrics, text.encode())

    def replace_last_by_previous(self) -> None:
        """For a ``last.pt`` that is damaged: the next save would keep it as the previous one."""
        link_or_copy(self.previous, self.last)

    def empty(self) -> list[str]:
        """Remove what a run wrote here; for whoever holds the lock.

        Returns:
            What is left, since no run wrote it: paths below the folder.
        """
        return remove_own(self.path, RUN)


def find_checkpoint(run: str, run_root: Path) -> Path:
    """The checkpoint that a run's name, its folder or a file stands for.

    Args:
        run: a name below ``run_root``, a run folder, or a ``.pt`` file.
        run_root: where runs are.

    Raises:
        CheckpointError: there is none.
    """
    for folder in (run_root / run, Path(run).expanduser()):
        if (folder / "best.pt").is_file():
            return folder / "best.pt"
        if folder.is_file():
            return folder
    state = "its run is not finished" if (run_root / run / "last.pt").is_file() else "no such run or file"
    raise CheckpointError(
        f"{run}: {state}; looked for {run_root / run / 'best.pt'} and for a file of that name"
    )
