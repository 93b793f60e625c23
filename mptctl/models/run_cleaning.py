"""Checkpoints that finished runs no longer need: which they are, what they hold, and their removal."""

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
        run: its folder.
        files: ``last.pt`` and ``previous.pt``, those of them that are there.
        freed: bytes that removing them frees; a file that ``best.pt`` is another name of frees none.
    """

    run: RunDir
    files: tuple[Path, ...]
    freed: int


def find_spare_checkpoints(found: RunList) -> list[SpareCheckpoints]:
    """Checkpoints that only a longer training of a finished run would need.

    Args:
        found: runs below a run root; those are passed over that are not finished or whose ``best.pt`` cannot
            be read.
    """
    spare = []
    for entry in found.runs:
        if entry.state != "finished":
            continue
        run = RunDir(Path(found.run_root) / entry.run)
        files = tuple(path for path in (run.last, run.previous) if path.is_file() and not path.is_symlink())
        if files:
            kept = run.best.stat().st_ino
            sizes = {
                status.st_ino: status.st_size for status in map(Path.stat, files) if status.st_ino != kept
            }
            spare.append(SpareCheckpoints(run, files, sum(sizes.values())))
    return spare


def remove_spare_checkpoints(spare: SpareCheckpoints) -> None:
    """Remove them while no other process writes the run.

    Raises:
        UsageError: another process has begun to write it, or it is no longer finished.
        StorageError: a file cannot be removed.
    """
    with spare.run.locked("keep"):
        if not spare.run.is_finished():
            raise UsageError(f"{spare.run.path}: is no longer finished; nothing of it was removed")
        for path in spare.files:
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                raise storage_error(path, error) from error
