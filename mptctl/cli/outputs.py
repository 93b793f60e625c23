"""Outputs that a call names: refused before anything is computed where one would destroy what it should not."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from mptctl.errors import UsageError

# What a file that is replaced by an option ends in: with another ending it is no earlier output of that option.
ENDINGS = {
    "--report": (".html", ".htm"),
    "--markdown": (".md", ".markdown"),
    "--junit": (".xml",),
    "--csv": (".csv",),
    "--latex": (".tex",),
}


class Outputs:
    """The files that one call will write, each with the option that named it."""

    def __init__(self) -> None:
        self._files: list[tuple[str, Path]] = []

    def file(self, option: str, path: Path | None) -> None:
        """Add a file; None is an option that was not given."""
        if path is not None:
            self._files.append((option, path))

    def folder(self, option: str, folder: Path | None, names: Iterable[str]) -> None:
        """Add the files that go into a folder; None is an option that was not given.

        Raises:
            UsageError: what is there is no folder.
        """
        if folder is None:
            return
        if os.path.lexists(folder) and not os.path.isdir(folder):
            raise UsageError(f"{option} {folder}: is not a folder; name one")
        self._files += [(option, folder / name) for name in names]

    def check(self, inputs: Sequence[Path], *, prints: bool = False) -> None:
        """Refuse what would be lost or mixed up.

        Args:
            inputs: files that the call reads, under any of their names; those that are not there do not count.
            prints: standard output is one object or page, with which nothing may be mixed.

        Raises:
            UsageError: an output is an input, another output, where standard output goes, a folder, a link that
                leads out of its folder, what cannot be written into, or a file of another kind that is there.
        """
        from mptctl.files import output_file

        read = [(path, os.stat(path)) for path in inputs if os.path.isfile(path)]
        printed = _standard_output()
        seen: list[tuple[str, Path, Path]] = []
        for option, path in self._files:
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
            endings = ENDINGS.get(option, (target.suffix.lower(),))
            # An empty file is nobody's work: a runner or `mktemp` makes one, of any name, to be written into.
            holds = found is not None and not stream and found.st_size > 0
            if holds and target.suffix.lower() not in endings and not _is_system(path):
                raise UsageError(
                    f"{option} {path}: is there and does not end in {endings[0]}; name another file, or remove it"
                )
            if found is not None and os.path.samestat(found, os.stat(os.devnull)):
                continue
            place = target if stream else Path(os.path.realpath(target))
            for other, named, taken in seen:
                if place == taken or place in taken.parents or taken in place.parents or _same(place, taken):
                    raise UsageError(f"{option} {path}: is in the way of {other} {named}; name another file")
            seen.append((option, path, place))


def read_for_models(models: Iterable[str | None], run_root: Path) -> list[Path]:
    """Files that may be read for models and their split; more than are read does no harm, fewer would.

    Args:
        models: run names, run folders, checkpoints or predictions files; None for one that was not given.
        run_root: where runs and the split are.
    """
    from mptctl.evaluation.readers import find_parts, is_predictions_file, names_files

    roots, files = {run_root}, []
    for model in models:
        if model is None:
            continue
        for path in (Path(model).expanduser(), run_root / model):
            files += [path, path / "best.pt"]
            if is_predictions_file(path) and names_files(path):
                files += find_parts(path)
            # A run folder that is named by its path is tested on the split beside it.
            real = Path(os.path.realpath(path))
            roots |= {real.parent, real.parent.parent}
    for root in roots:
        files += [root / "split.json", *root.glob("manifest*.npz")]
    return files


def _is_system(path: Path) -> bool:
    """Whether a path names what a process was given, such as /dev/stdout, which may lead into any file."""
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
