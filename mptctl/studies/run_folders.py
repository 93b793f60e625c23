"""Find runs: in the folder of a study, in a run root, by name, and by the digest of a checkpoint."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from mptctl.errors import CheckpointError, did_you_mean, some
from mptctl.models.ownership import NOT_RUNS
from mptctl.studies.answers_file import ANSWERS_NAME, RunAnswers, read_answers


def is_run_folder(folder: Path) -> bool:
    """Tells whether a folder holds a run that can be compared: a checkpoint, or kept predictions of one."""
    return (folder / "best.pt").is_file() or (folder / ANSWERS_NAME).is_file()


def named_folder(name: str, run_root: Path) -> Path:
    """Find the folder of a study, run root or run: a path with runs in it, else a name below the run root.

    Raises:
        CheckpointError: neither holds a run; the message says what was found, and suggests a run.
    """
    places = (Path(name).expanduser(), run_root / name)
    for folder in places:
        if runs_below(folder):
            return folder
    existing = [folder for folder in places if folder.is_dir()]
    state = _describe_other_content(existing[0]) if existing else "no such study or run"
    looked = " and ".join(dict.fromkeys(map(str, places)))
    runs = sorted(path.parent.name for path in run_root.glob("*/best.pt"))
    raise CheckpointError(
        f"{name}: {state}; looked for {looked}; runs in {run_root}: {', '.join(runs) or 'none'}"
        f"{did_you_mean(name, runs)}"
    )


def _describe_other_content(folder: Path) -> str:
    """Say what a folder holds that is neither a study nor a run: nothing, or several studies."""
    studies = [each.name for each in folders_in(folder) if runs_below(each)]
    if studies:
        return f"{folder} holds studies; name one of them: {some(studies)}"
    return f"{folder} holds no run that has come to a checkpoint"


def runs_below(folder: Path) -> list[Path]:
    """List the run folders that a folder stands for, in the order of their names, numbers by their value.

    These are the folder itself; else the run folders in it (a run root); else those one level deeper (a
    study, with a run root for each seed).
    """
    if is_run_folder(folder):
        return [folder]
    inside = folders_in(folder)
    runs = [each for each in inside if is_run_folder(each)]
    return runs or [run for each in inside for run in folders_in(each) if is_run_folder(run)]


def find_by_digest(digest: str, beside: Path) -> Path | None:
    """Find a run by its checkpoint's digest, among the runs and ensembles beside another; None if absent."""
    siblings = folders_in(beside.absolute().parent)
    candidates = siblings + [
        member for each in siblings if not is_run_folder(each) for member in folders_in(each)
    ]
    return next((run for run in candidates if is_run_folder(run) and _has_digest(run, digest)), None)


def _has_digest(run: Path, digest: str) -> bool:
    """Tells whether the checkpoint of a run has a digest; one that cannot be read has none."""
    try:
        return identify(run).digest == digest
    except CheckpointError:
        return False


class RunIdentity(NamedTuple):
    """The facts by which a run is recognised.

    Attributes:
        digest: of its checkpoint.
        teachers: digests of its teachers' checkpoints by their roles; empty where it had none.
        num_known: number of classes that it knows.
        num_old: number of old classes of its split.
    """

    digest: str
    teachers: dict[str, str]
    num_known: int
    num_old: int

    @property
    def is_old_model(self) -> bool:
        """Tells whether the run had no teacher and knows the old classes of its split alone."""
        return not self.teachers and self.num_known == self.num_old


def identify(folder: Path) -> RunIdentity:
    """Read the identity of a run from its checkpoint; without one, from its kept predictions.

    Raises:
        CheckpointError: there is neither, or the checkpoint is damaged.
    """
    best = folder / "best.pt"
    if best.is_file():
        status = best.stat()
        return _read_checkpoint(best, status.st_mtime_ns, status.st_size)
    head = kept_answers(folder).head
    return RunIdentity(head.digest, head.teachers, head.num_known, head.num_old)


def kept_answers(folder: Path) -> RunAnswers:
    """Read the kept predictions of a run whose checkpoint is missing.

    Raises:
        CheckpointError: there are none, or they are damaged.
    """
    kept = read_answers(folder)
    if kept is None:
        raise CheckpointError(
            f"{folder}: no run: holds neither best.pt nor {ANSWERS_NAME}; name a run folder"
        )
    return kept


@lru_cache(maxsize=1024)
def _read_checkpoint(best: Path, mtime: int, size: int) -> RunIdentity:
    """Read the identity of a checkpoint; once for each time and size of the file, which key the cache."""
    from mptctl.models.checkpoint import load_checkpoint

    checkpoint = load_checkpoint(best)
    meta = checkpoint.meta
    return RunIdentity(checkpoint.digest, meta.teachers, len(meta.class_names), meta.num_old)


def folders_in(where: Path) -> list[Path]:
    """List the folders in a folder that may be runs or hold runs, sorted by name, numbers by their value.

    Empty where there is no such folder.
    """
    if not where.is_dir():
        return []
    folders = [path for path in where.iterdir() if path.is_dir() and path.name not in NOT_RUNS]
    return sorted(folders, key=_natural_order)


def _natural_order(path: Path) -> list[tuple[int, str]]:
    """A key by which ``seed2`` comes before ``seed10``: the numbers in a name and the text after each."""
    return [(int(number or 0), text) for number, text in re.findall(r"(\d*)(\D*)", path.name)]
