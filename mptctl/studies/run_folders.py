"""The runs that a folder holds: a study's, a run root's, or the folder is one itself."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

from mptctl.errors import CheckpointError, did_you_mean, some
from mptctl.models.ownership import NOT_RUNS
from mptctl.studies.answers_file import ANSWERS_NAME, RunAnswers, read_answers


def is_run_folder(folder: Path) -> bool:
    """Says if a folder holds a run that can be compared: a checkpoint, or answers of one."""
    return (folder / "best.pt").is_file() or (folder / ANSWERS_NAME).is_file()


def named_folder(name: str, run_root: Path) -> Path:
    """Finds the folder of a study, run root or run: a path with runs in it, else a name below the run root.

    Raises:
        CheckpointError: neither holds a run.
    """
    places = (Path(name).expanduser(), run_root / name)
    for folder in places:
        if runs_below(folder):
            return folder
    there = next((folder for folder in places if folder.is_dir()), None)
    state = "no such study or run" if there is None else _what_it_holds_instead(there)
    looked = " and ".join(dict.fromkeys(map(str, places)))
    runs = sorted(path.parent.name for path in run_root.glob("*/best.pt"))
    raise CheckpointError(
        f"{name}: {state}; looked for {looked}; runs in {run_root}: {', '.join(runs) or 'none'}"
        f"{did_you_mean(name, runs)}"
    )


def _what_it_holds_instead(folder: Path) -> str:
    """Says why a folder is neither study nor run."""
    if not runs_of_chain(folder):
        return f"{folder} holds no run that has come to a checkpoint"
    # Folders of seeds and generations have numbers for names.
    studies = [each.name for each in _folders_in(folder) if not each.name.isdecimal() and runs_of_chain(each)]
    if studies:
        return f"{folder} holds studies; name one of them: {some(studies)}"
    return f"{folder}: its runs lie in generations; show them with mptctl chain"


def runs_below(folder: Path) -> list[Path]:
    """Run folders that a folder stands for, in the order of their names, numbers by their value.

    That is the folder itself, or those in it (a run root), or those one deeper (a study: a run root for each
    seed).
    """
    if is_run_folder(folder):
        return [folder]
    inside = _folders_in(folder)
    runs = [each for each in inside if is_run_folder(each)]
    return runs or [run for each in inside for run in _folders_in(each) if is_run_folder(run)]


def runs_of_chain(folder: Path, depth: int = 3) -> list[Path]:
    """Every run folder below one, in the order of their names; seed, generation and run are so deep."""
    if is_run_folder(folder):
        return [folder]
    return [run for each in _folders_in(folder) if depth for run in runs_of_chain(each, depth - 1)]


def find_by_digest(digest: str, beside: Path) -> Path | None:
    """Finds a run by its checkpoint's digest among those beside a run and their ensembles; None if absent."""
    siblings = _folders_in(beside.absolute().parent)
    candidates = siblings + [
        member for each in siblings if not is_run_folder(each) for member in _folders_in(each)
    ]
    for run in candidates:
        if is_run_folder(run) and _digest_or_none(run) == digest:
            return run
    return None


def checkpoint_digest(folder: Path) -> str:
    """Digest of a run's checkpoint, or of the one that its answers are of.

    Raises:
        CheckpointError: it has neither, or the checkpoint is damaged.
    """
    return _what_it_says(folder)[0]


def recorded_teachers(folder: Path) -> dict[str, str]:
    """Role to digest of each teacher that a run records.

    Raises:
        CheckpointError: no run, or the checkpoint is damaged.
    """
    return _what_it_says(folder)[1]


def _what_it_says(folder: Path) -> tuple[str, dict[str, str]]:
    best = folder / "best.pt"
    if best.is_file():
        status = best.stat()
        return _read_checkpoint(best, status.st_mtime_ns, status.st_size)
    head = kept_answers(folder).head
    return head.digest, head.teachers


def kept_answers(folder: Path) -> RunAnswers:
    """The answers in the folder of a run whose checkpoint is not there.

    Raises:
        CheckpointError: no answers there, or damaged ones.
    """
    kept = read_answers(folder)
    if kept is None:
        raise CheckpointError(
            f"{folder}: no run: holds neither best.pt nor {ANSWERS_NAME}; name a run folder"
        )
    return kept


def _digest_or_none(folder: Path) -> str | None:
    try:
        return checkpoint_digest(folder)
    except CheckpointError:
        return None


@lru_cache(maxsize=1024)
def _read_checkpoint(best: Path, mtime: int, size: int) -> tuple[str, dict[str, str]]:
    """Kept by time and size of the file, so that each checkpoint is read once in a comparison."""
    from mptctl.models.checkpoint import load_checkpoint

    checkpoint = load_checkpoint(best)
    return checkpoint.digest, checkpoint.meta.teachers


def _folders_in(where: Path) -> list[Path]:
    """The folders in a folder, numbers in their names in the order of numbers."""
    if not where.is_dir():
        return []
    folders = [path for path in where.iterdir() if path.is_dir() and path.name not in NOT_RUNS]
    return sorted(
        folders, key=lambda path: [(int(n or 0), text) for n, text in re.findall(r"(\d*)(\D*)", path.name)]
    )
