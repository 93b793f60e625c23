"""The files that a command will write; one that would destroy something is refused before any computing."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from mptctl.errors import UsageError
from mptctl.evaluation.reading.readers import find_parts, has_predictions, is_predictions_file
from mptctl.files import output_file
from mptctl.files.kept_names import is_kept

# Endings by which other programs open a page.
PAGE = (".html", ".htm")


@dataclass(frozen=True)
class _Output:
    """A file that will be written.

    Attributes:
        option: the flag that names the file.
        path: of the file.
        endings: that its name may have; empty: any.
    """

    option: str
    path: Path
    endings: tuple[str, ...] = ()

    def __str__(self) -> str:
        return f"{self.option} {self.path}"


class Outputs:
    """The files that one command will write, each with the flag that named it.

    ``Outputs().add_file("--out", path).check(inputs)`` refuses a file that would destroy something.
    """

    def __init__(self) -> None:
        self._files: list[_Output] = []

    def add_file(self, option: str, path: Path | None, endings: tuple[str, ...] = ()) -> Self:
        """Add a file; nothing is added where the path is None, which is a flag that was not given.

        Args:
            option: the flag that names the file.
            path: of the file.
            endings: that its name may have; empty: any.
        """
        if path is not None:
            self._files.append(_Output(option, path, endings))
        return self

    def add_figure(self, option: str, path: Path | None) -> Self:
        """Add a figure; nothing is added where the path is None, which is a flag that was not given.

        Raises:
            UsageError: the path ends neither in .png nor in .svg.
        """
        if path is not None and path.suffix.lower() not in (".png", ".svg"):
            raise UsageError(f"{option} {path}: name a file that ends in .png or .svg")
        return self.add_file(option, path)

    def add_folder(self, option: str, folder: Path | None, names: Iterable[str]) -> Self:
        """Add files in a folder, by their names; nothing is added where the folder is None.

        Args:
            option: the flag that names the folder.
            folder: of the files.
            names: of the files.

        Raises:
            UsageError: something is there that is no folder.
        """
        if folder is None:
            return self
        if os.path.lexists(folder) and not os.path.isdir(folder):
            raise UsageError(f"{option} {folder}: is not a folder; name one")
        self._files += [_Output(option, folder / name) for name in names]
        return self

    def check(self, inputs: Sequence[Path]) -> None:
        """Refuse outputs that would destroy or mix up something; nothing is written yet.

        Args:
            inputs: files that the command reads, under any of their names; missing ones are ignored.

        Raises:
            UsageError: an output is an input or another output, lies among the parts of an input, is a
                folder, a link that leads out of its folder, or a file that may not be written, is a file that
                mptctl keeps in a folder of its own, or has the name ending of another kind.
        """
        folders = {Path(os.path.realpath(path)): path for path in inputs if _holds_parts(path)}
        taken: dict[_Output, Path] = {}  # the real path of each output
        for output in self._files:
            target = _target(output)
            _refuse_input(output, target, inputs)
            if target.exists() and not target.is_file():
                continue  # a stream, which takes whatever is written
            _refuse_kept(output, target)
            if target.parent in folders:
                raise UsageError(
                    f"{output}: would lie among the parts of {folders[target.parent]}, and be read with "
                    "them; name another folder"
                )
            for other, other_target in taken.items():
                is_in_other = other_target in (target, *target.parents)
                is_other_in_it = target in other_target.parents
                if is_in_other or is_other_in_it or _is_same_file(target, other_target):
                    raise UsageError(f"{output}: is in the way of {other}; name another file")
            taken[output] = target
        for output in taken:
            if output.endings and output.path.suffix.lower() not in ("", *output.endings):
                raise UsageError(f"{output}: needs a name that ends in {output.endings[0]}")


def files_read_for(models: Iterable[str | None], run_root: Path) -> list[Path]:
    """List the files that a command may read for its models and their split, whether or not they are there.

    A file too many does no harm; one too few would let an output replace an input.

    Args:
        models: run names, run folders, checkpoints or predictions files; None for one that was not given.
        run_root: the folder of runs and split.
    """
    roots, files = {run_root}, []
    for model in models:
        if model is None:
            continue
        for path in (Path(model).expanduser(), run_root / model):
            files += [path, path / "best.pt"]
            if is_predictions_file(path) and has_predictions(path):
                files += find_parts(path)
            # The split of a run that is named by its path lies beside it, or beside its ensemble.
            real = Path(os.path.realpath(path))
            roots |= {real.parent, real.parent.parent}
    for root in roots:
        files += [root / "split.json", *root.glob("split-*.arrow")]
    return files


def _target(output: _Output) -> Path:
    """The real path of an output's file.

    Raises:
        UsageError: ``~`` that no shell has replaced, ``-``, a folder, or a link out of its folder.
    """
    path = output.path
    if path.parts[:1] and path.parts[0].startswith("~"):
        raise UsageError(f"{output}: the shell has not replaced {path.parts[0]}; write the whole path")
    if str(path) == "-":
        raise UsageError(f"{output}: name a file, or /dev/stdout for standard output")
    try:
        return Path(os.path.realpath(output_file(path)))
    except UsageError as error:
        raise UsageError(f"{output.option} {error}") from error


def _holds_parts(path: Path) -> bool:
    """Tell whether a path is a folder of parts of a predictions file."""
    return os.path.isdir(path) and is_predictions_file(path) and has_predictions(path)


def _refuse_input(output: _Output, target: Path, inputs: Sequence[Path]) -> None:
    """Raise UsageError for an output whose file is an input."""
    for source in inputs:
        if os.path.isfile(source) and _is_same_file(source, target):
            raise UsageError(f"{output}: is read by this call ({source}); name another file")


def _refuse_kept(output: _Output, target: Path) -> None:
    """Raise UsageError for a read-only file, and for a file of a run, a search, a split or a packed copy.

    A name such as ``split.json`` counts as such a file only beside another one.
    """
    if target.exists() and (not os.access(target, os.W_OK) or not target.stat().st_mode & 0o222):
        raise UsageError(f"{output}: is read-only; name another file, or make it writable")
    if not is_kept(target.name) or not os.path.isdir(target.parent):
        return
    if any(is_kept(name) for name in os.listdir(target.parent) if name != target.name):
        raise UsageError(f"{output}: is a file that mptctl keeps in {target.parent}; name another file")


def _is_same_file(one: Path, other: Path) -> bool:
    """Tells whether two paths name one file, such as a hard link; no where one of them is missing."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
