"""Outputs that a call names; one that would destroy something is refused before anything is computed."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from mptctl.errors import UsageError
from mptctl.evaluation.reading.readers import find_parts, has_predictions, is_predictions_file
from mptctl.files import output_file
from mptctl.files.output_kinds import OutputKind, figure_kind, is_kept


@dataclass(frozen=True)
class _Output:
    """A file that will be written.

    Attributes:
        option: that named it.
        path: of the file.
        kind: of what is written; None where something else decides what may be replaced.
    """

    option: str
    path: Path
    kind: OutputKind | None

    def __str__(self) -> str:
        return f"{self.option} {self.path}"


class Outputs:
    """The files that one call will write, each with the option that named it."""

    def __init__(self) -> None:
        self._files: list[_Output] = []

    def file(self, option: str, path: Path | None, kind: OutputKind | None) -> None:
        """Add a file; a path of None is an option that was not given.

        Args:
            option: that named it.
            path: of the file.
            kind: of what is written: an earlier output of that kind may be replaced, and nothing else. None
                for a file of a folder of ours, and where the caller decides.
        """
        if path is not None:
            self._files.append(_Output(option, path, kind))

    def figure(self, option: str, path: Path | None) -> None:
        """Add a figure; a path of None is an option that was not given.

        Raises:
            UsageError: it is neither a .png nor a .svg file.
        """
        if path is not None and path.suffix.lower() not in (".png", ".svg"):
            raise UsageError(f"{option} {path}: name a file that ends in .png or .svg")
        self.file(option, path, None if path is None else figure_kind(path))

    def folder(
        self,
        option: str,
        folder: Path | None,
        names: Iterable[str],
        kind_of: Callable[[Path], OutputKind | None],
    ) -> None:
        """Add the files that go into a folder; a folder of None is an option that was not given.

        Raises:
            UsageError: what is there is no folder.
        """
        if folder is None:
            return
        if os.path.lexists(folder) and not os.path.isdir(folder):
            raise UsageError(f"{option} {folder}: is not a folder; name one")
        self._files += [_Output(option, folder / name, kind_of(folder / name)) for name in names]

    def check(self, inputs: Sequence[Path], *, prints: bool = False) -> None:
        """Refuse what would be lost or mixed up.

        Args:
            inputs: files that the call reads, under any of their names; those that are not there do not
                count.
            prints: standard output is one object or page, with which nothing may be mixed.

        Raises:
            UsageError: an output is an input, another output, where standard output goes, a folder, a link
                that leads out of its folder, what cannot be written into, a file that mptctl keeps in a
                folder of its own, something that is there and is no earlier output of its kind, or a file
                named as those of another kind.
        """
        read = [(path, os.stat(path)) for path in inputs if os.path.isfile(path)]
        printed = _standard_output()
        seen: list[tuple[str, Path, Path]] = []
        for output in self._files:
            option, path = output.option, output.path
            try:
                target = output_file(path)
            except UsageError as error:
                raise UsageError(f"{option} {error}") from error
            found = _stat(target)
            stream = found is not None and not stat.S_ISREG(found.st_mode)
            if found is not None:
                for source, there in read:
                    if os.path.samestat(found, there):
                        raise UsageError(
                            f"{option} {path}: is read by this call ({source}); name another file"
                        )
                if printed is not None and os.path.samestat(found, printed):
                    if prints:
                        raise UsageError(f"{option} {path}: is where standard output goes; name another file")
                    if not stream and not _is_system(path):
                        raise UsageError(
                            f"{option} {path}: is where standard output goes; name /dev/stdout for it"
                        )
            if not stream and not _is_system(path):
                _refuse_foreign(output, target, found)
            if found is not None and os.path.samestat(found, os.stat(os.devnull)):
                continue
            place = target if stream else Path(os.path.realpath(target))
            for other, named, taken in seen:
                if place == taken or place in taken.parents or taken in place.parents or _same(place, taken):
                    raise UsageError(f"{option} {path}: is in the way of {other} {named}; name another file")
            seen.append((option, path, place))
        _refuse_endings(self._files)


def read_for_models(models: Iterable[str | None], run_root: Path) -> list[Path]:
    """Files that may be read for models and their split; more than are read does no harm, fewer would.

    Args:
        models: run names, run folders, checkpoints or predictions files; None for one that was not given.
        run_root: where runs and the split are.
    """
    roots, files = {run_root}, []
    for model in models:
        if model is None:
            continue
        for path in (Path(model).expanduser(), run_root / model):
            files += [path, path / "best.pt"]
            if is_predictions_file(path) and has_predictions(path):
                files += find_parts(path)
            # A run folder that is named by its path is tested on the split beside it.
            real = Path(os.path.realpath(path))
            roots |= {real.parent, real.parent.parent}
    for root in roots:
        files += [root / "split.json", *root.glob("manifest*.npz")]
    return files


def _refuse_foreign(output: _Output, target: Path, found: os.stat_result | None) -> None:
    """Refuse to replace what is no earlier output of this kind; an empty file is nobody's work.

    Args:
        output: that is to be written.
        target: the file that it goes into.
        found: of what is there; None where nothing is.
    """
    if output.kind is None:
        return
    if is_kept(target.name) and any(
        is_kept(path.name) and path.name != target.name for path in _folder_of(target)
    ):
        raise UsageError(f"{output}: is a file that mptctl keeps in {target.parent}; name another file")
    if found is None:
        return
    if not os.access(target, os.W_OK) or not found.st_mode & 0o222:
        raise UsageError(f"{output}: is read-only; name another file, or make it writable")
    if not found.st_size:
        return
    try:
        earlier = output.kind.known(target)
    except OSError as error:
        raise UsageError(f"{output}: cannot be read ({error.strerror}); name another file") from error
    if not earlier:
        raise UsageError(
            f"{output}: is there, and is no {output.kind.what} that mptctl wrote; name another file, or "
            "delete or rename it"
        )


def _refuse_endings(outputs: Iterable[_Output]) -> None:
    """Refuse files that are named as those of another kind are, and would be opened by another program."""
    for output in outputs:
        kind, path = output.kind, output.path
        if kind is None or not kind.endings or path.suffix.lower() in ("", *kind.endings):
            continue
        if path.is_file() or not path.exists():  # a pipe may be called anything
            raise UsageError(f"{output}: the {kind.what} needs a name that ends in {kind.endings[0]}")


def _folder_of(file: Path) -> list[Path]:
    """The names in the folder of a file; none where it cannot be listed."""
    try:
        return list(file.parent.iterdir())
    except OSError:
        return []


def _is_system(path: Path) -> bool:
    """Tells whether a path, such as /dev/stdout, names what a process was given."""
    return str(path).startswith(("/dev/", "/proc/"))


def _standard_output() -> os.stat_result | None:
    try:
        return os.fstat(1)
    except OSError:
        return None


def _stat(path: Path) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def _same(one: Path, other: Path) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
