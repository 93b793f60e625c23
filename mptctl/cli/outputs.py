"""The files that a command will write; one that would destroy something is refused before any computing."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterable, Mapping, Sequence
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
        option: the flag that names the file.
        path: of the file.
        kind: of its content; None where something else decides what may be replaced.
    """

    option: str
    path: Path
    kind: OutputKind | None

    def __str__(self) -> str:
        return f"{self.option} {self.path}"


class Outputs:
    """The files that one command will write, each with the flag that named it."""

    def __init__(self) -> None:
        self._files: list[_Output] = []

    def add_file(self, option: str, path: Path | None, kind: OutputKind | None) -> None:
        """Add a file; nothing is added where the path is None, which is a flag that was not given.

        Args:
            option: the flag that names the file.
            path: of the file.
            kind: of its content: only an earlier output of that kind may be replaced. None for a file in a
                folder that mptctl keeps, and where the caller decides.
        """
        if path is not None:
            self._files.append(_Output(option, path, kind))

    def add_figure(self, option: str, path: Path | None) -> None:
        """Add a figure; nothing is added where the path is None, which is a flag that was not given.

        Raises:
            UsageError: the path ends neither in .png nor in .svg.
        """
        if path is not None and path.suffix.lower() not in (".png", ".svg"):
            raise UsageError(f"{option} {path}: name a file that ends in .png or .svg")
        self.add_file(option, path, None if path is None else figure_kind(path))

    def add_folder(
        self,
        option: str,
        folder: Path | None,
        names: Iterable[str],
        kind_of: Callable[[Path], OutputKind | None],
    ) -> None:
        """Add files in a folder, by their names; nothing is added where the folder is None.

        Raises:
            UsageError: something is there that is no folder.
        """
        if folder is None:
            return
        if os.path.lexists(folder) and not os.path.isdir(folder):
            raise UsageError(f"{option} {folder}: is not a folder; name one")
        self._files += [_Output(option, folder / name, kind_of(folder / name)) for name in names]

    def check(self, inputs: Sequence[Path], *, prints: bool = False) -> None:
        """Refuse outputs that would destroy or mix up something; nothing is written yet.

        Args:
            inputs: files that the command reads, under any of their names; missing ones are ignored.
            prints: standard output is one object or page, with which nothing may be mixed.

        Raises:
            UsageError: an output is an input, another output, or where standard output goes; a folder, a
                link that leads out of its folder, or a file that cannot be written; a file that mptctl keeps
                in a folder of its own; a file that is no earlier output of its kind; or a file with the name
                ending of another kind.
        """
        read = {path: os.stat(path) for path in inputs if os.path.isfile(path)}
        folders = {Path(os.path.realpath(path)): path for path in inputs if _holds_parts(path)}
        places: list[tuple[_Output, Path]] = []
        for output in self._files:
            _refuse_shorthand(output)
            try:
                target = output_file(output.path)
            except UsageError as error:
                raise UsageError(f"{output.option} {error}") from error
            status = _status(target)
            is_stream = status is not None and not stat.S_ISREG(status.st_mode)
            is_file = not is_stream and not _is_system(output.path)
            if status is not None:
                _refuse_input(output, status, read)
                _refuse_standard_output(output, status, prints=prints, is_file=is_file)
            if is_file:
                _refuse_foreign(output, target, status)
            if status is not None and os.path.samestat(status, os.stat(os.devnull)):
                continue
            place = target if is_stream else Path(os.path.realpath(target))
            if place.parent in folders:
                raise UsageError(
                    f"{output}: would lie among the parts of {folders[place.parent]}, and be read with them; "
                    "name another folder"
                )
            for other, taken in places:
                if place in (taken, *taken.parents) or taken in place.parents or _is_same_file(place, taken):
                    raise UsageError(f"{output}: is in the way of {other}; name another file")
            places.append((output, place))
        _refuse_endings(self._files)


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


def _refuse_input(output: _Output, status: os.stat_result, read: Mapping[Path, os.stat_result]) -> None:
    """Refuse an output that is one of the files which the command reads."""
    for source, status_of_source in read.items():
        if os.path.samestat(status, status_of_source):
            raise UsageError(f"{output}: is read by this call ({source}); name another file")


def _refuse_standard_output(output: _Output, status: os.stat_result, *, prints: bool, is_file: bool) -> None:
    """Refuse an output that goes where standard output goes, if that must stay unmixed or is a plain file."""
    printed = _status(1)
    if printed is None or not os.path.samestat(status, printed):
        return
    if prints:
        raise UsageError(f"{output}: is where standard output goes; name another file")
    if is_file:
        raise UsageError(f"{output}: is where standard output goes; name /dev/stdout for it")


def _holds_parts(path: Path) -> bool:
    """Tell whether a path is a folder of parts of a predictions file."""
    return os.path.isdir(path) and is_predictions_file(path) and has_predictions(path)


def _refuse_shorthand(output: _Output) -> None:
    """Refuse ``~`` that no shell has replaced, and ``-``, of which a folder or a file would be made."""
    if output.path.parts[:1] and output.path.parts[0].startswith("~"):
        raise UsageError(f"{output}: the shell has not replaced {output.path.parts[0]}; write the whole path")
    if str(output.path) == "-":
        raise UsageError(f"{output}: name a file, or /dev/stdout for standard output")


def _refuse_foreign(output: _Output, target: Path, status: os.stat_result | None) -> None:
    """Refuse a file that holds anything but an earlier output of this kind, or cannot be written.

    An empty file may be replaced, and any file where the output has no kind. A name that mptctl keeps for
    itself is refused in a folder with another such name.

    Args:
        output: to be written.
        target: the file behind its path.
        status: of the target; None where nothing is there.
    """
    if output.kind is None:
        return
    siblings = [path.name for path in _files_beside(target) if path.name != target.name]
    if is_kept(target.name) and any(map(is_kept, siblings)):
        raise UsageError(f"{output}: is a file that mptctl keeps in {target.parent}; name another file")
    if status is None:
        return
    if not os.access(target, os.W_OK) or not status.st_mode & 0o222:
        raise UsageError(f"{output}: is read-only; name another file, or make it writable")
    output.kind.refuse_other(target, str(output))


def _refuse_endings(outputs: Iterable[_Output]) -> None:
    """Refuse files whose names end as those of another kind, which another program would open."""
    for output in outputs:
        kind, path = output.kind, output.path
        if kind is None or not kind.endings or path.suffix.lower() in ("", *kind.endings):
            continue
        if path.is_file() or not path.exists():  # a pipe may be called anything
            raise UsageError(f"{output}: the {kind.what} needs a name that ends in {kind.endings[0]}")


def _files_beside(file: Path) -> list[Path]:
    """All that is in the folder of a file, the file too; empty where the folder cannot be listed."""
    try:
        return list(file.parent.iterdir())
    except OSError:
        return []


def _is_system(path: Path) -> bool:
    """Tells whether a path, such as /dev/stdout, names a device or an open stream rather than a file."""
    return str(path).startswith(("/dev/", "/proc/"))


def _status(file: Path | int) -> os.stat_result | None:
    """The status of a file or a descriptor; None where there is none."""
    try:
        return os.stat(file)
    except OSError:
        return None


def _is_same_file(one: Path, other: Path) -> bool:
    """Tells whether two paths name one file, such as a hard link; no where one of them is missing."""
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False
