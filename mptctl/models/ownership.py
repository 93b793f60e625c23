"""Decides where a run may be written, and which files in a folder mptctl wrote and may remove.

"Ours" is what mptctl wrote.
"""

from __future__ import annotations

import json
import shutil
import stat
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any, Literal

from mptctl.errors import CheckpointError, UsageError, some
from mptctl.files.kept_names import RUN_FILES
from mptctl.files.writing import PARTIAL_NAME

LOCK = "lock"
# Folder in the run root for decoded pictures and teacher logits.
CACHE = "cache"
# Folders in the run root that hold no runs; MLflow and Weights & Biases keep copies of files of runs in
# theirs.
NOT_RUNS = (CACHE, "mlflow-files", "wandb")
# Bytes to read of a file that may mark a run; `environment.json` has under 1 kB.
MARK_BYTES = 10**6


@dataclass(frozen=True)
class FolderKind:
    """A kind of folder that mptctl writes, such as a run folder.

    Attributes:
        what: name of the kind in messages.
        files: patterns for names of our files in the folder.
        folders: patterns for names of our folders in the folder, each with its kind.
        marked: tells whether mptctl wrote a folder, by its content.
        whole: True if everything in such a folder is ours.
    """

    what: str
    files: tuple[str, ...] = ()
    folders: Mapping[str, FolderKind] = field(default_factory=dict)
    marked: Callable[[Path], bool] = lambda folder: True
    whole: bool = False

    def is_file_of_ours(self, name: str) -> bool:
        """Tell whether a file of that name in the folder is ours, completely or half written."""
        return self.is_half_of_ours(name) or any(fnmatchcase(name, pattern) for pattern in self.files)

    def folder_of_ours(self, name: str) -> FolderKind | None:
        """The kind of the inner folder that mptctl writes under this name; None if it writes none."""
        return next((kind for pattern, kind in self.folders.items() if fnmatchcase(name, pattern)), None)

    def contents(self, folder: Path) -> list[Path]:
        """List a folder's content without its lock and our half-written files; empty if it is no folder."""
        if not folder.is_dir():
            return []
        return [
            item
            for item in sorted(folder.iterdir())
            if item.name != LOCK and not self.is_half_of_ours(item.name)
        ]

    def is_half_of_ours(self, name: str) -> bool:
        """Tell whether a name is that of one of our files that a killed process left half written."""
        half = PARTIAL_NAME.fullmatch(name)
        return half is not None and any(fnmatchcase(half[1], pattern) for pattern in self.files)


def is_run(folder: Path) -> bool:
    """Tell whether a folder holds a run of this or an earlier version, by the content of its files.

    A valid ``environment.json``, the first file of a run, is enough, or ``metrics.jsonl``, or a checkpoint.
    ``recipe.yaml`` and ``split.json`` do not count: users write recipes, and the run root holds a split.
    """
    environment = _read_json_object(folder / "environment.json")
    versions = environment.get("versions")
    if {"command", "started"} <= environment.keys() and isinstance(versions, dict) and "mptctl" in versions:
        return True
    if {"event", "epoch", "step"} <= _read_json_object(folder / "metrics.jsonl", first_line=True).keys():
        return True
    # Imported here: the checks above need no torch, which is slow to import.
    from mptctl.models.checkpoint import load_checkpoint

    for name in ("best.pt", "last.pt", "previous.pt"):
        if (folder / name).is_file():
            with suppress(CheckpointError):
                load_checkpoint(folder / name)
                return True
    return False


RUN = FolderKind(
    "run",
    files=RUN_FILES,
    folders={
        "tensorboard": FolderKind("tensorboard", files=("events.out.tfevents.*",)),
        "plugins": FolderKind("plugins", files=("*-????????.py",)),
    },
    marked=is_run,
)


def run_name(folder: Path, run_root: Path) -> str:
    """The name of a run by its folder: its path below the run root; outside the root that of the folder."""
    resolved = folder.resolve()
    root = run_root.resolve()
    return resolved.relative_to(root).as_posix() if root in resolved.parents else resolved.name


def run_folder(run_root: Path, name: str) -> Path:
    """The folder of a run's name below the run root; the folder need not exist.

    Args:
        run_root: folder of all runs.
        name: path relative to the run root; may have several parts, as in ``seed1/mpt-kl``.

    Raises:
        UsageError: the name is empty, reserved, leads out of the run root, or through a link or a file; or
            the run root is no folder.
    """
    path = Path(name)
    if not name.strip() or "\0" in name or path.is_absolute() or ".." in path.parts or not path.parts:
        raise UsageError(
            f"--name {name!r}: names no folder below the run root {run_root}; give a name such as old"
        )
    if path.parts[0] in NOT_RUNS:
        use = "decoded pictures are kept" if path.parts[0] == CACHE else "--log keeps its files"
        raise UsageError(f"--name {name!r}: {path.parts[0]} is where {use}; use another --name")
    folder = run_root
    for part in path.parts:
        folder = folder / part
        try:
            mode = folder.lstat().st_mode
        except FileNotFoundError:
            continue
        except (NotADirectoryError, PermissionError) as error:
            # Not the name, but the folder that it is looked for in.
            raise UsageError(f"{folder.parent}: {error.strerror}; use another --run-root") from error
        except OSError as error:
            raise UsageError(f"--name {name!r}: {error.strerror}; use another --name") from error
        if stat.S_ISLNK(mode):
            raise UsageError(f"{folder}: is a link, which no run is written through; use another --name")
        if not stat.S_ISDIR(mode):
            raise UsageError(f"{folder}: is a file, not a folder; use another --name")
    return folder


def refuse_own_inputs(folder: Path, inputs: Iterable[Path]) -> None:
    """Refuse to write a folder that contains the command's inputs.

    Args:
        folder: the folder to be written; it need not exist.
        inputs: files that the command reads, such as teachers; links are followed.

    Raises:
        UsageError: an input is in the folder.
    """
    if not folder.exists():
        return
    for path in inputs:
        if any(parent.samefile(folder) for parent in path.expanduser().resolve().parents if parent.exists()):
            raise UsageError(f"{folder}: holds {path}, which this command reads; use another --name")


# What happens if a folder has content already. "refuse" and "refuse for good": an error; the message of
# "refuse" names --resume, which only some commands have. "keep": resume. "replace": remove what is ours.
Existing = Literal["refuse", "refuse for good", "keep", "replace"]


def existing_by_flags(*, resume: bool, overwrite: bool) -> Existing:
    """The treatment of a folder's content that ``--resume`` and ``--overwrite`` ask for."""
    if resume:
        return "keep"
    return "replace" if overwrite else "refuse"


def refuse_existing_content(folder: Path, kind: FolderKind, existing: Existing) -> None:
    """Raise an error if a folder's content forbids writing there; change nothing.

    Args:
        folder: the folder; it need not exist.
        kind: the kind of content to be written.
        existing: how to treat present content.

    Raises:
        UsageError: the folder is or contains a link; something else is where a file of ours would be; or the
            folder has content. Content passes with "keep"; with "replace" it passes if mptctl wrote it.
    """
    if folder.is_symlink():
        raise UsageError(f"{folder}: is a link, which no {kind.what} is written through; use another --name")
    _refuse_obstacles(folder, kind)
    contents = kind.contents(folder)
    if not contents or existing == "keep":
        return
    if not kind.marked(folder):
        raise UsageError(
            f"{folder}: already holds {some(item.name for item in contents)}, and no {kind.what} of "
            "mptctl's, which is all that --overwrite replaces; use another --name"
        )
    if existing != "replace":
        go_on = "go on with --resume, start anew with" if existing == "refuse" else "write anew with"
        raise UsageError(f"{folder}: already holds a {kind.what}; {go_on} --overwrite, or use another --name")


def remove_half_written(folder: Path, kind: FolderKind) -> None:
    """Remove our files that a killed process left half written; call only while holding the folder's lock."""
    for item in folder.iterdir():
        if kind.is_half_of_ours(item.name):
            item.unlink()


def remove_own(folder: Path, kind: FolderKind, but: Path | None = None) -> list[str]:
    """Remove our files and folders from a folder; call only while holding the folder's lock.

    Args:
        folder: the folder, which itself stays, and its lock too.
        kind: the folder's kind.
        but: a file in the folder that stays too.

    Returns:
        Paths, relative to the folder, of files and folders that stay because they are not ours.
    """
    left: list[str] = []
    for item in sorted(folder.iterdir()):
        if item == but:
            continue
        if item.is_dir() and not item.is_symlink():
            left += _remove_own_folder(item, kind.folder_of_ours(item.name))
        elif kind.is_file_of_ours(item.name):
            item.unlink()
        elif item.name != LOCK:
            left.append(item.name)
    return left


def _remove_own_folder(folder: Path, kind: FolderKind | None) -> list[str]:
    """Remove a folder inside a folder of ours as far as it is ours; None: it is not.

    Returns:
        Paths of what stays, relative to the outer folder.
    """
    if kind is None or not kind.marked(folder):
        return [f"{folder.name}/"]
    if kind.whole:
        shutil.rmtree(folder)
        return []
    left = [f"{folder.name}/{name}" for name in remove_own(folder, kind)]
    (folder / LOCK).unlink(missing_ok=True)
    with suppress(OSError):  # not empty: files that are not ours are left
        folder.rmdir()
    return left


def note_left_files(names: list[str]) -> list[str]:
    """A list with one note that names files which stay since they are not ours; empty without names."""
    if not names:
        return []
    return [f"left alone, since mptctl did not write it: {some(names)}"]


def _refuse_obstacles(folder: Path, kind: FolderKind) -> None:
    """Raise UsageError for a link, or for anything but a file or folder where ours would be written."""
    if not folder.is_dir():
        return
    for item in sorted(folder.iterdir()):
        mode = item.lstat().st_mode
        if stat.S_ISLNK(mode):
            raise UsageError(
                f"{item}: is a link, which nothing is written through; move it away, or use another --name"
            )
        is_folder = stat.S_ISDIR(mode)
        inner = kind.folder_of_ours(item.name)
        if is_folder and inner is not None and not inner.whole:
            _refuse_obstacles(item, inner)
        if kind.is_file_of_ours(item.name) and not stat.S_ISREG(mode):
            raise _obstacle_error(item, "file")
        # Only exact names count: the pattern of trials also fits files of others.
        if item.name in kind.folders and not is_folder:
            raise _obstacle_error(item, "folder")


def _obstacle_error(item: Path, wanted: str) -> UsageError:
    """Make the error of an item that is in the place of a file or folder of ours."""
    return UsageError(
        f"{item}: is not the {wanted} that would be written; move it away, or use another --name"
    )


def _read_json_object(path: Path, *, first_line: bool = False) -> dict[str, Any]:
    """Read the JSON object in a file or in its first line; an empty dict if there is no such object."""
    if not path.is_file():
        return {}
    try:
        with open(path, "rb") as file:
            content = json.loads(file.readline(MARK_BYTES) if first_line else file.read(MARK_BYTES))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}
