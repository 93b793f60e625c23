"""The run folder: names and writes its files, and finds the checkpoints of runs by name."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field, ValidationError

from mptctl.errors import CheckpointError, UsageError, did_you_mean, one_line
from mptctl.files import Model, write_atomically
from mptctl.machine.facts import cpu_name, git_commit, versions
from mptctl.models.lock import locked, refuse_unusable
from mptctl.models.metrics_log import ends_as_finished, read_metrics
from mptctl.models.ownership import RUN, Existing, note_left_files, remove_own
from mptctl.names import METHOD_NAMES, Role
from mptctl.recipe.own import Kind, Own

if TYPE_CHECKING:
    import torch


class OwnFile(Model):
    """A method, criterion or network of one's own that a run was trained with."""

    kind: Kind = Field(description="method, criterion or network")
    name: str = Field(description="in the recipe")
    teachers: list[Role] = Field(description="of a method: the models whose logits it learns from")
    file: str = Field(description="name of the copy of its source in the folder `plugins`, which is not run")
    digest: str = Field(description="SHA-256 of its source")


class EnvironmentFile(Model):
    """``environment.json``: the command, packages and device that computed a run."""

    command: list[str] = Field(
        default_factory=list, description="the command line, as it was given; left out of kept results"
    )
    started: str = Field(description="local time of the start, ISO 8601")
    versions: dict[str, str] = Field(description="of Python and of the packages that compute")
    device: str = Field(description="the device's own name")
    cpu_threads: int = Field(description="threads of torch")
    git_commit: str | None = Field(
        description="commit of the checkout that the code ran from; null without a checkout"
    )
    own: list[OwnFile] = Field([], description="what of one's own it was trained with")


class RunDir:
    """A run's folder; making the object reads and writes nothing.

    Attributes:
        path: the folder.
        best: checkpoint of the best epoch, as `evaluate` takes it.
        last, previous: the newest checkpoint and the one before it, as ``--resume`` takes them.
        recipe, split, metrics, environment: further files of the run.
        tensorboard: folder of TensorBoard's events.
        plugins: folder of the sources of one's own parts, as text.
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
        self.plugins = path / "plugins"

    @contextlib.contextmanager
    def locked(self, existing: Existing) -> Iterator[None]:
        """Make the folder and hold its lock until the ``with`` block ends; see `mptctl.models.lock.locked`.

        A run in the folder stays, also with "replace": `remove_run_files` removes it.

        Raises:
            UsageError: another process holds the folder, or its content forbids writing.
            StorageError: the folder cannot be made.
        """
        with locked(self.path, RUN, existing):
            yield

    def holds_run(self) -> bool:
        """Tell whether a run has begun here: ``environment.json``, ``last.pt`` or ``best.pt`` is there."""
        return any(path.is_file() for path in (self.environment, self.last, self.best))

    def is_finished(self) -> bool:
        """Tell whether the run has ``best.pt`` and a ``done`` line at the end of its log.

        An imported model has no log and counts as finished; an empty log counts as unfinished.

        Raises:
            CheckpointError: the log cannot be read.
        """
        try:
            lines = read_metrics(self.metrics)
        except OSError as error:
            raise CheckpointError(
                f"{self.metrics}: cannot be read, so whether the run is finished is not known: "
                f"{one_line(error)}"
            ) from error
        is_imported = not self.metrics.exists()
        return self.best.is_file() and (is_imported or ends_as_finished(lines))

    def refuse_unusable(self, existing: Existing) -> None:
        """Raise the UsageError that `locked` would raise; hold and change nothing."""
        refuse_unusable(self.path, RUN, existing)

    def read_own(self) -> list[OwnFile]:
        """The parts of one's own that the run was trained with; empty where `environment.json` says none."""
        try:
            return EnvironmentFile.model_validate_json(self.environment.read_bytes()).own
        except (OSError, ValidationError):
            return []

    def write_start(
        self, recipe_yaml: str, split_json: str | None, device: torch.device, own: Sequence[Own] = ()
    ) -> None:
        """Write ``environment.json``, ``recipe.yaml`` and ``split.json``, the files that a run begins with.

        Args:
            recipe_yaml: content of ``recipe.yaml``.
            split_json: content of ``split.json``; None for an imported model without a split: no such file.
            device: the device that computes the run.
            own: parts of one's own in the recipe, whose sources are kept as text.
        """
        import torch  # takes seconds; without it errors about missing models come at once

        name = torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_name()
        environment = EnvironmentFile(
            command=[Path(sys.argv[0]).name, *sys.argv[1:]],
            started=datetime.now(UTC).astimezone().isoformat(timespec="seconds"),
            versions=versions(),
            device=name,
            cpu_threads=torch.get_num_threads(),
            git_commit=git_commit(),
            own=[
                OwnFile(
                    kind=part.kind,
                    name=part.name,
                    teachers=sorted(part.teachers),
                    file=part.kept_name,
                    digest=part.digest,
                )
                for part in own
            ],
        )
        # The environment first: it marks the folder as ours, even if the process is killed right after.
        write_atomically(self.environment, environment.model_dump_json(indent=2).encode())
        write_atomically(self.recipe, recipe_yaml.encode())
        if split_json is not None:
            write_atomically(self.split, split_json.encode())
        for part in own:
            self.plugins.mkdir(exist_ok=True)
            write_atomically(self.plugins / part.kept_name, part.source.encode())

    def remove_run_files(self, but: Path | None = None) -> list[str]:
        """Remove a run's files from the folder; call only while holding the lock.

        Args:
            but: a file of the run that stays.

        Returns:
            A note that names files which stay because no run wrote them; none without such files.
        """
        return note_left_files(remove_own(self.path, RUN, but))


def find_checkpoint(run: str, run_root: Path) -> Path:
    """Find a checkpoint: ``best.pt`` of a run, or the file that is named.

    Args:
        run: a run's name below ``run_root``, a run folder, or a checkpoint file.
        run_root: folder of all runs.

    Raises:
        CheckpointError: there is no such checkpoint; the message names runs that there are.
    """
    for path in (run_root / run, Path(run).expanduser()):
        if (path / "best.pt").is_file():
            return path / "best.pt"
        if path.is_file():
            return path
    if (run_root / run / "last.pt").is_file():
        raise CheckpointError(
            f"{run}: its run is not finished; go on with --resume and the command that began it"
        )
    raise CheckpointError(
        f"{run}: no such run or file; looked for {run_root / run / 'best.pt'} and for a file of that name; "
        f"{_how_to_make(run)}{_name_runs(run_root, 'best.pt', run)}"
    )


def refuse_missing_run(folder: Path) -> None:
    """Raise the CheckpointError for a run to resume that was never begun; names the runs beside it."""
    if folder.is_dir() and any(folder.iterdir()):
        return  # whether the content is a run is checked when the run is begun
    raise CheckpointError(
        f"{folder}: nothing to resume: there is no such run; begin it without --resume, or name another; "
        f"{_name_runs(folder.parent, 'environment.json', folder.name)}"
    )


def _name_runs(run_root: Path, file: str, meant: str) -> str:
    """End of a message: the runs below a run root that have a file, and the one that may be meant."""
    existing = sorted(path.parent.name for path in run_root.glob(f"*/{file}"))
    return f"runs there: {', '.join(existing) or 'none'}{did_you_mean(meant, existing)}"


def find_references(runs: Iterable[str], run_root: Path) -> tuple[Path, ...]:
    """Find the checkpoints of references: one for each run, and one for each member of an ensemble.

    Args:
        runs: runs as for `find_checkpoint`, or folders of ensembles, by name or path.
        run_root: folder of all runs.

    Raises:
        CheckpointError: a run has no checkpoint, or a member of an ensemble is not finished.
        UsageError: a checkpoint is named twice.
    """
    references: list[Path] = []
    for run in runs:
        named = (run_root / run, Path(run).expanduser())
        is_run = any(RunDir(path).holds_run() for path in named)
        ensemble = None if is_run else next((path for path in named if path.is_dir()), None)
        checkpoints = [find_checkpoint(run, run_root)] if ensemble is None else _finished_members(ensemble)
        for path in checkpoints:
            if any(path.samefile(other) for other in references):
                raise UsageError(f"--ref {run}: {path}: is named twice, and would count twice; name it once")
            references.append(path)
    return tuple(references)


def list_members(folder: Path) -> list[RunDir]:
    """List an ensemble's members: the runs in its folder whose names are numbers, in numeric order."""
    numbered = [path for path in folder.iterdir() if path.name.isdecimal()] if folder.is_dir() else []
    members = [RunDir(path) for path in sorted(numbered, key=lambda path: int(path.name))]
    return [member for member in members if member.holds_run()]


def _finished_members(folder: Path) -> list[Path]:
    """List the checkpoints of an ensemble's members; raise CheckpointError unless all are finished."""
    members = list_members(folder)
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
    """Part of a message: the command whose run has this name by default; empty if there is none.

    >>> _how_to_make("old")
    'make it with mptctl train-old; '
    """
    commands = {
        "old": "train-old",
        "ref": "train-ref",
        "mpt-kl": "train-mpt --distance kl",
        "mpt-lm": "train-mpt --distance lm",
        "mpt-kl-noref": "train-mpt --no-ref",
        "mpt-lm-noref": "train-mpt --no-ref --distance lm",
    }
    if run not in commands and run not in METHOD_NAMES:
        return ""
    return f"make it with mptctl {commands.get(run, f'train-baseline {run}')}; "
