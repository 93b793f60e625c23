"""The forms of predictions files, by suffix, and the files that a path names.

Light: the command line names the suffixes in its help.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, cast

from mptctl.errors import DataError, UsageError, did_you_mean, some

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mptctl.evaluation.reading.scan import Scanned, SideColumns

    # The arrays that a file has, by the names of `columns.COLUMNS`.
    Columns = dict[str, NDArray[Any]]


class Form(Protocol):
    """The module of one form of predictions files."""

    def read(self, path: Path) -> Columns:
        """The columns of a file, each row looked at; DataError, or an error of its library."""

    def headers(self, path: Path) -> list[str]:
        """The names of all columns of a file."""

    def memory_needed(self, path: Path) -> int:
        """Bytes that `read` takes; 0 where it looks itself."""

    def scan(self, name: str, parts: Sequence[Path]) -> Scanned | None:
        """Sound predictions without logits, out of memory; None where they ask for a second look."""

    def side_columns(self, path: Path, columns: Sequence[str]) -> SideColumns:
        """Ids and some further columns of a file, for DuckDB."""


# The ending of each form, of which FORM_file.py stands beside this file.
FORMS = tuple(sorted(f".{path.stem[: -len('_file')]}" for path in Path(__file__).parent.glob("*_file.py")))
SUFFIXES = ", ".join(FORMS)


def form_of(path: Path) -> Form:
    """The form of a file, by its suffix; imported when a file is read, since pyarrow is slow to import."""
    return cast(Form, import_module(f"mptctl.evaluation.reading.{path.suffix.lower()[1:]}_file"))


# Files that a run folder or a run root holds, and a folder of parts does not.
_OF_A_RUN = ("recipe.yaml", "split.json", "best.pt", "last.pt")


def is_predictions_file(path: Path) -> bool:
    """True where a path names predictions: by its ending, by a pattern such as ``part-*``, or as a folder."""
    if path.suffix.lower() in FORMS or (_is_pattern(path) and not os.path.lexists(path)):
        return True
    return (
        os.path.isdir(path)
        and not any(os.path.lexists(path / name) for name in _OF_A_RUN)
        and _holds_parts(path)
    )


def find_parts(path: Path) -> list[Path]:
    """The files that a path names: itself, what a pattern matches, or the parts in a folder, sorted by name.

    In a folder everything is a part but what another writer left (`passed_over`): fewer rows than somebody
    wrote would be another test set.

    Raises:
        DataError: no file, a link to nothing, or in a folder what cannot be read: a folder, a packed file,
            another form.
        UsageError: an ending that cannot be read, or parts of several forms.
    """
    if path.is_dir():
        parts = [found for found in sorted(path.iterdir()) if not _is_note(found)]
        for part in parts:
            _refuse_unreadable(part, path)
    elif path.is_file() or not _is_pattern(path):
        parts = [path] if path.is_file() else []
    else:
        parts = _matched(path)
    named = parts or [path]
    if unknown := [
        part for part in named if part.suffix.lower() not in FORMS and (parts or not _is_pattern(path))
    ]:
        raise UsageError(f"{unknown[0]}: not a predictions file; use one of {SUFFIXES}")
    if not parts:
        raise _no_file(path)
    if len(forms := sorted({part.suffix.lower() for part in parts})) > 1:
        raise UsageError(f"{path}: holds parts of several forms ({some(forms)}); name those of one form")
    return parts


def _no_file(path: Path) -> DataError:
    """The error of a path that names no file; what stands beside it is looked at here alone."""
    if path.is_dir():
        return DataError(f"{path}: a folder without parts; write {SUFFIXES} into it")
    if _is_pattern(path):
        return DataError(f"{path}: matches no file; correct the pattern, or write predictions there")
    names = [name for name in _names_in(path.parent) if Path(name).suffix.lower() in FORMS]
    meant = did_you_mean(path.name, names)
    return DataError(f"{path}: no such file; write predictions there, or name a run folder or a .pt{meant}")


def passed_over(path: Path) -> int:
    """The number of files of a folder of parts that are notes: `_SUCCESS`, checksums, hidden files."""
    return sum(_is_note(found) for found in path.iterdir()) if path.is_dir() else 0


def _is_note(path: Path) -> bool:
    return path.name[0] in "._" or path.suffix == ".crc"


def _names_in(folder: Path) -> list[str]:
    """The names in a folder; none where it cannot be listed."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _matched(pattern: Path) -> list[Path]:
    """The files that a pattern matches; `**` matches folders on its way to them."""
    found = [Path(name) for name in sorted(glob.glob(str(pattern), recursive=True))]
    for part in found:
        if not os.path.exists(part):
            raise DataError(f"{part}: a link to nothing; restore the file, or remove the link")
        if os.path.isdir(part) and "**" not in str(pattern):
            raise DataError(
                f"{part}: a folder that the pattern matches; name the files in it, or all below with **"
            )
    return [part for part in found if not os.path.isdir(part)]


def _refuse_unreadable(part: Path, folder: Path) -> None:
    """DataError where an entry of a folder of parts is no file of a form that is read."""
    by_pattern = f"name its files by a pattern such as '{folder}/**/*{next(iter(FORMS))}'"
    if part.is_dir():
        raise DataError(f"{part}: a folder in a folder of parts; {by_pattern}, or move it away")
    if not part.exists():
        raise DataError(f"{part}: a link to nothing; restore the file, or remove the link")
    if not part.is_file():
        raise DataError(f"{part}: no regular file; move it away, or name the parts by a pattern")
    if part.suffix.lower() not in FORMS:
        packed = set(map(str.lower, part.suffixes)) & set(FORMS)
        what = "packed; unpack it" if packed else f"none of {SUFFIXES}; write it in that form"
        raise DataError(f"{part}: {what}, move it away, or name the parts by a pattern")


def names_files(path: Path) -> bool:
    """True where any file of predictions is there by this name."""
    try:
        return bool(find_parts(path))
    except (DataError, UsageError):
        return path.is_file()


def _is_pattern(path: Path) -> bool:
    return glob.has_magic(str(path))


def _holds_parts(folder: Path) -> bool:
    """True where a folder holds a file of a form that is read, packed or not."""
    try:
        entries = [path for path in folder.iterdir() if not _is_note(path)]
        return any(set(map(str.lower, path.suffixes)) & set(FORMS) for path in entries)
    except OSError:
        return False
