"""The forms of predictions files, by suffix, and the files that a path names.

The command line imports this file for its help, so it imports nothing that is slow to load.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Generator, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple, Protocol, cast

from mptctl.errors import DataError, UsageError, did_you_mean, some


class Form(Protocol):
    """What the module of each form of predictions files has, such as `csv_file`."""

    def headers(self, path: Path) -> list[str]:
        """Read the names of all columns of a file."""

    def batches(self, path: Path, wanted: Sequence[str]) -> Generator[dict[str, Any]]:
        """Read some columns batch by batch: Arrow arrays by name, `logits` (n, C), `classes` as one list.

        Raises DataError, or an error of the library that reads the form.
        """


# Endings of the forms: for each ``.form`` there is a module ``form_file.py`` beside this file.
FORMS = tuple(sorted(f".{path.stem[: -len('_file')]}" for path in Path(__file__).parent.glob("*_file.py")))
SUFFIXES = ", ".join(FORMS)


def form_of(path: Path) -> Form:
    """Import the module that reads a file, by the file's suffix, which must be one of `FORMS`."""
    # Only when a file is read, since pyarrow is slow to import.
    return cast(Form, import_module(f"mptctl.evaluation.reading.{path.suffix.lower()[1:]}_file"))


# Files that a run folder or a run root holds, and a folder of parts does not.
_OF_A_RUN = ("recipe.yaml", "split.json", "best.pt", "last.pt")


def is_predictions_file(path: Path) -> bool:
    """Tell whether a path names predictions: a file by its ending, a pattern, or a folder of parts.

    The file itself need not be there. A pattern such as ``part-*`` is one only if no file has this very name.
    """
    if path.suffix.lower() in FORMS or (_is_pattern(path) and not os.path.lexists(path)):
        return True
    return (
        os.path.isdir(path)
        and not any(os.path.lexists(path / name) for name in _OF_A_RUN)
        and _holds_parts(path)
    )


class Content(NamedTuple):
    """The content that is expected in a file: its name in messages, and the remedy if there is no file."""

    name: str
    remedy: str


PREDICTIONS = Content("predictions file", "write predictions there, or name a run folder or a .pt")


def find_parts(path: Path, content: Content = PREDICTIONS) -> list[Path]:
    """Find the files that a path names: itself, the matches of a pattern, or the parts in a folder; sorted.

    Every entry of a folder must be a part, except notes of the program that wrote it (`count_notes`): a part
    that was passed over would leave another test set.

    Args:
        path: as somebody named it.
        content: of the files, for messages.

    Raises:
        DataError: there is no file, or a link to nothing; a folder of parts has a folder, a packed file or a
            file of another form.
        UsageError: a file has an ending that cannot be read, or the parts are of several forms.
    """
    if path.is_dir():
        parts = [entry for entry in sorted(path.iterdir()) if not _is_note(entry)]
        for part in parts:
            _refuse_unreadable(part, path)
    elif path.is_file() or not _is_pattern(path):
        parts = [path] if path.is_file() else []
    else:
        parts = _match(path)
    # The name of one file is judged by its ending even if there is no such file.
    names_one_file = not path.is_dir() and not _is_pattern(path)
    judged = [path] if names_one_file else parts
    unreadable = [part for part in judged if part.suffix.lower() not in FORMS]
    if unreadable:
        raise UsageError(f"{unreadable[0]}: not a {content.name}; use one of {SUFFIXES}")
    if not parts:
        raise _error_of_no_file(path, content)
    forms = sorted({part.suffix.lower() for part in parts})
    if len(forms) > 1:
        raise UsageError(f"{path}: holds parts of several forms ({some(forms)}); name those of one form")
    return parts


def _error_of_no_file(path: Path, content: Content) -> DataError:
    """Make the error of a path that names no file, with the most similar name beside it."""
    if path.is_dir():
        return DataError(f"{path}: a folder without parts; write {SUFFIXES} into it")
    if _is_pattern(path):
        return DataError(f"{path}: matches no file; correct the pattern, or {content.remedy}")
    if path.exists():
        return DataError(f"{path}: is no plain file; rows are read more than once; save them in a file")
    names = [name for name in _names_in(path.parent) if Path(name).suffix.lower() in FORMS]
    return DataError(f"{path}: no such file; {content.remedy}{did_you_mean(path.name, names)}")


def count_notes(path: Path) -> int:
    """Count the files of a folder of parts that are notes: `_SUCCESS`, checksums, hidden files.

    0 if the path is no folder.
    """
    return sum(_is_note(entry) for entry in path.iterdir()) if path.is_dir() else 0


def _is_note(path: Path) -> bool:
    """Tell whether a file is a note that a program left beside the parts it wrote, and no part."""
    return path.name[0] in "._" or path.suffix == ".crc"


def _names_in(folder: Path) -> list[str]:
    """List the names in a folder; none where it cannot be listed."""
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _match(pattern: Path) -> list[Path]:
    """Find the files that a pattern matches, sorted; `**` matches folders of any depth.

    Raises:
        DataError: the pattern matches a link to nothing, or, without `**`, a folder.
    """
    matches = [Path(name) for name in sorted(glob.glob(str(pattern), recursive=True))]
    for match in matches:
        if not os.path.exists(match):
            raise DataError(f"{match}: a link to nothing; restore the file, or remove the link")
        if os.path.isdir(match) and "**" not in str(pattern):
            raise DataError(
                f"{match}: a folder that the pattern matches; name the files in it, or all below with **"
            )
    return [match for match in matches if not os.path.isdir(match)]


def _refuse_unreadable(part: Path, folder: Path) -> None:
    """Raise DataError where an entry of a folder of parts is not a file of one of `FORMS`."""
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


def has_predictions(path: Path) -> bool:
    """Tell whether a path names files that are there: predictions, or a single file of any ending."""
    try:
        return bool(find_parts(path))
    except (DataError, UsageError):
        return path.is_file()


def _is_pattern(path: Path) -> bool:
    return glob.has_magic(str(path))


def _holds_parts(folder: Path) -> bool:
    """Tell whether a folder holds a file of one of `FORMS`, packed (such as ``.csv.gz``) or not."""
    try:
        entries = [path for path in folder.iterdir() if not _is_note(path)]
        return any(set(map(str.lower, path.suffixes)) & set(FORMS) for path in entries)
    except OSError:
        return False
