"""The run folder: its files, who may write it, and how a run is found again."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from mptctl.errors import CheckpointError, UsageError, did_you_mean, one_line
from mptctl.files import Model, link_or_copy, write_atomically
from mptctl.machine.facts import cpu_name, git_commit, versions
from mptctl.models.lock import locked, refuse_unusable
from mptctl.models.metrics_log import came_to_end, read_metrics
from mptctl.models.ownership import RUN, Existing, remove_own
from mptctl.names import METHOD_NAMES

if TYPE_CHECKING:
    import torch


class EnvironmentFile(Model):
    """``environment.json``: what computed the run."""

    command: list[str] = Field(
        default_factory=list, description="the command line, as it was given; left out of kept results"
    )
    started: str = Field(description="local time of the start, ISO 8601")
    versions: dict[str, str] = Field(description="of Python and of the packages that compute")
    device: str = Field(description="the device's own name")
    cpu_threads: int = Field(description="threads of torch")
    git_commit: str | None = Field(description="of the checkout that the code ran from, where there is one")


class RunDir:
    """One run's folder.

    Attributes:
        path: of the folder. ``best`` (what `evaluate` takes), ``last`` and ``previous`` (what ``--resume``
            takes), ``recipe``, ``split``, ``metrics``, ``environment`` are the files in it.
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
    def locked(self, existing: Existing) -> Iterator[None]:
        """Make the folder, and hold it against every other process while the run goes on.

        Nothing in it is removed, also where it is to be replaced: that is for `empty`.

        Raises:
            UsageError: another process trains into it; it holds a run that is to be refused; there is a link
                in it; or it is to be replaced and holds no run of ours.
            StorageError: it cannot be made.
        """
        with locked(self.path, RUN, existing):
            yield

    def holds_run(self) -> bool:
        """Tell whether a run has begun here, by the files that it writes first and last."""
        return any(path.is_file() for path in (self.environment, self.last, self.best))

    def is_finished(self) -> bool:
        """Tell whether the run is finished; an imported model, which has no metrics, counts as finished.

        Raises:
            CheckpointError: its metrics cannot be read.
        """
        try:
            lines = read_metrics(self.metrics)
        except OSError as error:
            raise CheckpointError(
                f"{self.metrics}: cannot be read, so whether the run is finished is not known: "
                f"{one_line(error)}"
            ) from error
        ended = came_to_end(lines) if lines else not self.metrics.exists()
        return ended and self.best.is_file()

    def refuse_unusable(self, existing: Existing) -> None:
        """Raise what `locked` would raise, without holding or changing anything."""
        refuse_unusable(self.path, RUN, existing)

    def write_start(self, recipe_yaml: str, split_json: str | None, device: torch.device) -> None:
        """Write environment, recipe and split; an imported model may have no split."""
        import torch  # here, since it takes seconds, and that a model is not there is to be said at once

        name = torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name()
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

    def replace_last_by_previous(self) -> None:
        """Replace a damaged ``last.pt``, which the next save would keep as ``previous.pt``."""
        link_or_copy(self.previous, self.last)

    def empty(self, but: Path | None = None) -> list[str]:
        """Remove what a run wrote here; for whoever holds the lock.

        Args:
            but: a file of it that stays.

        Returns:
            Paths below the folder of files that stay, since no run wrote them.
        """
        return remove_own(self.path, RUN, but)


def find_checkpoint(run: str, run_root: Path) -> Path:
    """Find the checkpoint of a run's name, a run folder or a file.

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
    if (run_root / run / "last.pt").is_file():
        raise CheckpointError(
            f"{run}: its run is not finished; go on with --resume and the command that began it"
        )
    there = sorted(path.parent.name for path in run_root.glob("*/best.pt"))
    raise CheckpointError(
        f"{run}: no such run or file; looked for {run_root / run / 'best.pt'} and for a file of that name; "
        f"{_how_to_make(run)}runs there: {', '.join(there) or 'none'}{did_you_mean(run, there)}"
    )


def find_references(runs: Iterable[str], run_root: Path) -> tuple[Path, ...]:
    """Find the checkpoints of references: one of each run, and all members' of an ensemble's folder.

    Args:
        runs: as for `find_checkpoint`, or folders of members by name or path.
        run_root: where runs are.

    Raises:
        CheckpointError: there is none, or a member is not finished.
        UsageError: one is named twice.
    """
    found: list[Path] = []
    for run in runs:
        places = (run_root / run, Path(run).expanduser())
        folder = next((place for place in places if place.is_dir()), None)
        if folder is None or any(RunDir(place).holds_run() for place in places):
            paths = [find_checkpoint(run, run_root)]
        else:
            paths = _finished_members(folder)
        for path in paths:
            if any(path.samefile(other) for other in found):
                raise UsageError(f"--ref {run}: {path}: is named twice, and would count twice; name it once")
            found.append(path)
    return tuple(found)


def members_of(folder: Path) -> list[RunDir]:
    """The members of an ensemble: the runs in its folder that are named by a number, in order."""
    numbered = [path for path in folder.iterdir() if path.name.isdecimal()] if folder.is_dir() else []
    members = [RunDir(path) for path in sorted(numbered, key=lambda path: int(path.name))]
    return [member for member in members if member.holds_run()]


def _finished_members(folder: Path) -> list[Path]:
    """The checkpoints of an ensemble's members; the errors of `find_references`."""
    members = members_of(folder)
    unfinished = [member for member in members if not member.is_finished()]
    if len(unfinished) == len(members):
        raise CheckpointError(
            f"{folder}: holds no finished member of an ensemble; train them with mptctl train-ensemble "
            "--size N, or name a run"
        )
    if unfinished:
        raise CheckpointError(
            f"{unfinished[0].path}: is not finished; go on with mptctl train-ensemble --resume, or name the "
            "members that are, each with --ref"
        )
    return [member.best for member in members]


def _how_to_make(run: str) -> str:
    """Words such as ``make it with mptctl train-old; ``; empty where no command has this name for its run."""
    verbs = {
        "old": "train-old",
        "ref": "train-ref",
        "mpt-kl": "train-mpt --distance kl",
        "mpt-lm": "train-mpt --distance lm",
        "mpt-kl-noref": "train-mpt --no-ref",
        "mpt-lm-noref": "train-mpt --no-ref --distance lm",
    }
    verb = verbs.get(run) or (f"train-baseline {run}" if run in METHOD_NAMES else None)
    return f"make it with mptctl {verb}; " if verb else ""
