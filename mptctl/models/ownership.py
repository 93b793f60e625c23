"""The owner of a folder: where a run may be written, and which files in it are ours to remove."""

from __future__ import annotations

import json
import re
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from mptctl.errors import CheckpointError, UsageError, some
from mptctl.files import PARTIAL
from mptctl.files.output_kinds import RUN_FILES

LOCK = "lock"
# Beside the runs, the run root holds this folder of decoded pictures and teacher logits,
CACHE = "cache"
# and those in which MLflow and Weights & Biases keep copies of files of runs.
NOT_RUNS = (CACHE, "mlflow-files", "wandb")
# No file that is read as a mark is longer; `environment.json` has under 1 kB.
MARK_BYTES = 10**6
# The name of a file while `replacing` or `link_or_copy` writes it.
HALF = re.compile(rf"\.(.+?)(\.\w{{8}})?{re.escape(PARTIAL)}")


@dataclass(frozen=True)
class Kind:
    """The kind of a folder of ours, by what it holds.

    Attributes:
        what: what messages call it.
        files: names of our files in it, as patterns.
        folders: names of our folders in it, as patterns, and what those hold.
        marked: tells whether a folder of this kind was written by us.
        whole: everything in it is ours.
    """

    what: str
    files: tuple[str, ...] = ()
    folders: Mapping[str, Kind] = field(default_factory=dict)
    marked: Callable[[Path], bool] = lambda folder: True
    whole: bool = False

    def is_file_of_ours(self, name: str) -> bool:
        """Tell whether a file of that name is ours, whole or half."""
        return self.is_half_of_ours(name) or any(fnmatchcase(name, pattern) for pattern in self.files)

    def folder_of_ours(self, name: str) -> Kind | None:
        """The kind of a folder of that name; None where it is not ours."""
        return next((kind for pattern, kind in self.folders.items() if fnmatchcase(name, pattern)), None)

    def contents(self, folder: Path) -> list[Path]:
        """Everything in a folder but its lock and half-written files; empty where it is no folder."""
        if not folder.is_dir():
            return []
        return [
            item
            for item in sorted(folder.iterdir())
            if item.name != LOCK and not self.is_half_of_ours(item.name)
        ]

    def is_half_of_ours(self, name: str) -> bool:
        """Tell whether a name is that of a file of ours which a kill left half written."""
        half = HALF.fullmatch(name)
        return half is not None and any(fnmatchcase(half[1], pattern) for pattern in self.files)


def is_run(folder: Path) -> bool:
    """Tell whether a folder holds a run of this or an earlier version, also one that was killed early on.

    The first file that a run writes is ``environment.json``. ``recipe.yaml`` and ``split.json`` are no marks:
    users write the one, and the run root holds the other.
    """
    environment = _json(folder / "environment.json")
    versions = environment.get("versions")
    if {"command", "started"} <= environment.keys() and isinstance(versions, dict) and "mptctl" in versions:
        return True
    if {"event", "epoch", "step"} <= _json(folder / "metrics.jsonl", first_line=True).keys():
        return True
    # Here, because names are checked before torch, which is slow to import, is wanted.
    from mptctl.models.checkpoint import load_checkpoint

    for name in ("best.pt", "last.pt", "previous.pt"):
        if (folder / name).is_file():
            with suppress(CheckpointError):
                load_checkpoint(folder / name)
                return True
    return False


RUN = Kind(
    "run",
    files=RUN_FILES,
    folders={"tensorboard": Kind("tensorboard", files=("events.out.tfevents.*",))},
    marked=is_run,
)


def run_folder(run_root: Path, name: str) -> Path:
    """The folder below the run root that a name stands for.

    Args:
        run_root: where runs are.
        name: relative to it; may have several parts, as in ``seed1/mpt-kl``.

    Raises:
        UsageError: the name leads out of the run root, or through a link or a file, or names no folder.
    """
    path = Path(name)
    if not name.strip() or "\0" in name or path.is_absolute() or ".." in path.parts or not path.parts:
        raise UsageError(
            f"--name {name!r}: names no folder below the run root {run_root}; give a name such as old"
        )
    if path.parts[0] in NOT_RUNS:
        kept = "decoded pictures are kept" if path.parts[0] == CACHE else "--log keeps its files"
        raise UsageError(f"--name {name!r}: {path.parts[0]} is where {kept}; use another --name")
    folder = run_root
    for part in path.parts:
        folder = folder / part
        try:
            mode = folder.lstat().st_mode
        except FileNotFoundError:
            continue
        except OSError as error:
            raise UsageError(f"--name {name!r}: {error.strerror}; use another --name") from error
        if stat.S_ISLNK(mode):
            raise UsageError(f"{folder}: is a link, which no run is written through; use another --name")
        if not stat.S_ISDIR(mode):
            raise UsageError(f"{folder}: is a file, not a folder; use another --name")
    return folder


def refuse_own_inputs(folder: Path, inputs: Iterable[Path]) -> None:
    """Refuse to write into a folder that holds what is read for it.

    Args:
        folder: that is to be written.
        inputs: teachers, or whatever else is read.

    Raises:
        UsageError: one of them is in the folder, by whatever path or link it was named.
    """
    if not folder.exists():
        return
    for path in inputs:
        if any(parent.samefile(folder) for parent in path.expanduser().resolve().parents if parent.exists()):
            raise UsageError(f"{folder}: holds {path}, which this command reads; use another --name")


# The fate of what a folder holds already: it must be empty, what is in it is gone on with, or it is
# thrown away. A verb that cannot go on with a run refuses without naming --resume.
Existing = Literal["refuse", "refuse for good", "keep", "replace"]


def existing_by_flags(*, resume: bool, overwrite: bool) -> Existing:
    """The fate of what a folder holds by ``--resume`` and ``--overwrite``."""
    return "keep" if resume else "replace" if overwrite else "refuse"


def refuse_foreign(folder: Path, kind: Kind, existing: Existing) -> None:
    """Refuse a folder that must not be written as it was asked for; changes nothing.

    Raises:
        UsageError: there are links in it; it holds something that is to be refused; or that is to be replaced
            and was not written by us.
    """
    if folder.is_symlink():
        raise UsageError(f"{folder}: is a link, which no {kind.what} is written through; use another --name")
    _refuse_in_the_way(folder, kind)
    held = kind.contents(folder)
    if not held or existing == "keep":
        return
    if not kind.marked(folder):
        raise UsageError(
            f"{folder}: already holds {some(item.name for item in held)}, and no {kind.what} of mptctl's, "
            "which is all that --overwrite replaces; use another --name"
        )
    if existing != "replace":
        go_on = "go on with --resume, start anew with" if existing == "refuse" else "write anew with"
        raise UsageError(f"{folder}: already holds a {kind.what}; {go_on} --overwrite, or use another --name")


def remove_halves(folder: Path, kind: Kind) -> None:
    """Remove what a killed process left half written; for whoever holds the folder's lock."""
    for item in folder.iterdir():
        if kind.is_half_of_ours(item.name):
            item.unlink()


def remove_own(folder: Path, kind: Kind, but: Path | None = None) -> list[str]:
    """Remove from a folder what is ours, but its lock; for whoever holds that.

    Args:
        folder: itself stays.
        kind: what is in it.
        but: a file of ours in it that stays too.

    Returns:
        What is left, as paths below the folder.
    """
    left: list[str] = []
    for item in sorted(folder.iterdir()):
        if item == but:
            continue
        if item.is_symlink() or not item.is_dir():
            if kind.is_file_of_ours(item.name):
                item.unlink()
            elif item.name != LOCK:
                left.append(item.name)
            continue
        inner = kind.folder_of_ours(item.name)
        if inner is None or not inner.marked(item):
            left.append(f"{item.name}/")
        elif inner.whole:
            shutil.rmtree(item)
        else:
            left += [f"{item.name}/{name}" for name in remove_own(item, inner)]
            (item / LOCK).unlink(missing_ok=True)
            with suppress(OSError):  # something that is not ours is left in it
                item.rmdir()
    return left


def note_left_files(names: list[str]) -> list[str]:
    """A note that names files which are not ours and stay; empty where there are none."""
    if not names:
        return []
    return [f"left alone, since mptctl did not write it: {some(names)}"]


def _refuse_in_the_way(folder: Path, kind: Kind) -> None:
    """Refuse links, and other things than files and folders where ours would be written."""
    if not folder.is_dir():
        return
    for item in sorted(folder.iterdir()):
        mode = item.lstat().st_mode
        if stat.S_ISLNK(mode):
            raise UsageError(
                f"{item}: is a link, which nothing is written through; move it away, or use another --name"
            )
        inner = kind.folder_of_ours(item.name)
        if inner is not None and stat.S_ISDIR(mode) and not inner.whole:
            _refuse_in_the_way(item, inner)
        # Where our folders have any name, as trials have, what has another form is just not ours.
        if kind.is_file_of_ours(item.name):
            wanted, is_wanted = "file", stat.S_ISREG(mode)
        else:
            wanted, is_wanted = "folder", stat.S_ISDIR(mode) or item.name not in kind.folders
        if not is_wanted:
            raise UsageError(
                f"{item}: is not the {wanted} that would be written; move it away, or use another --name"
            )


def _json(path: Path, *, first_line: bool = False) -> dict[str, Any]:
    """The JSON object in a file, or in its first line; empty where there is none."""
    if not path.is_file():
        return {}
    try:
        with open(path, "rb") as file:
            found = json.loads(file.readline(MARK_BYTES) if first_line else file.read(MARK_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
