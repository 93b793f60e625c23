"""Finds and removes checkpoints that finished runs need only to be resumed."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from mptctl.errors import UsageError
from mptctl.files import storage_error
from mptctl.models.run_folder import RunDir
from mptctl.models.run_list import RunList


@dataclass(frozen=True)
class SpareCheckpoints:
    """Checkpoints that a finished run keeps for ``--resume`` alone.

    Attributes:
        run: the run's folder.
        files: ``last.pt`` and ``previous.pt``, as far as they exist.
        freed: bytes that their removal frees; a hard link to ``best.pt`` frees none.
    """

    run: RunDir
    files: tuple[Path, ...]
    freed: int


def find_spare_checkpoints(listed: RunList) -> list[SpareCheckpoints]:
    """Find ``last.pt`` and ``previous.pt`` of finished runs, which only a longer training would need.

    Symbolic links are left out.

    Args:
        listed: runs below a run root; all but runs of state "finished" are skipped.
    """
    spare = []
    for entry in listed.runs:
        if entry.state != "finished":
            continue
        run = RunDir(Path(listed.run_root) / entry.run)
        files = tuple(path for path in (run.last, run.previous) if path.is_file() and not path.is_symlink())
        if files:
            sizes = {path.stat().st_ino: path.stat().st_size for path in files}  # hard links count once
            sizes.pop(run.best.stat().st_ino, None)  # the bytes stay if ``best.pt`` is the same file
            spare.append(SpareCheckpoints(run, files, sum(sizes.values())))
    return spare


def remove_spare_checkpoints(spare: SpareCheckpoints) -> None:
    """Remove a finished run's spare checkpoints while holding the run's lock.

    Raises:
        UsageError: another process writes the run, or the run is no longer finished.
        CheckpointError: the run's log cannot be read.
        StorageError: a file cannot be removed.
    """
    with spare.run.locked(existing="keep"):
        if not spare.run.is_finished():
            raise UsageError(f"{spare.run.path}: is no longer finished; nothing of it was removed")
        for path in spare.files:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise storage_error(path, error) from error
