"""Places that name many files: a pattern with braces or ``*``, or a folder; and the parts that names say."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path

from mptctl.data.listing.image_folder import PART_WORDS, class_folders
from mptctl.errors import DataError, some

_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_WORD = re.compile("[a-z]+")


def names_files(place: str, suffix: str) -> bool:
    """Tell whether a place ends in a suffix, or is a folder with such files and without class folders."""
    here = glob.glob(os.path.join(glob.escape(place), f"*{suffix}"))
    return place.endswith(suffix) or (bool(here) and not class_folders(Path(place)))


def root_of(place: str) -> Path:
    """The folder that all files of a place lie below."""
    if os.path.isdir(place):
        return Path(place).resolve()
    fixed = re.split(r"[{*?\[]", place, maxsplit=1)[0]
    return Path(os.path.dirname(fixed) or ".").resolve()


def find_files(place: str, suffix: str) -> list[Path]:
    """The files that a place names: one, those of a pattern, or those of a suffix in a folder at any depth.

    Raises:
        DataError: one that the braces name is not there, or none is.
    """
    is_folder = os.path.isdir(place)
    names = [os.path.join(glob.escape(place), f"**/*{suffix}")] if is_folder else expand_braces(place)
    found: list[str] = []
    for name in names:
        found += sorted(glob.glob(name, recursive=True)) if glob.has_magic(name) else [name]
    if missing := [name for name in found if not os.path.isfile(name)]:
        raise DataError(
            f"{place}: {len(missing):,} of {len(found):,} shards are not there: {some(missing)}; "
            "correct the pattern, or fetch them"
        )
    if not found:
        raise DataError(f"{place}: names no {suffix} file; correct the pattern")
    return [Path(name).resolve() for name in dict.fromkeys(found)]


def parts_in_names(names: Sequence[str], place: str) -> list[str]:
    """The word for a part in each path, such as ``train`` in ``train-000.tar``; "" where no path has one.

    Raises:
        DataError: some have one, and others do not.
    """
    found = [[word for word in _WORD.findall(name.lower()) if word in PART_WORDS] for name in names]
    if any(found) and not all(found):
        without = [name for name, words in zip(names, found, strict=True) if not words]
        raise DataError(
            f"{place}: some shards say in their names which part they are, and others do not "
            f"({some(without)}); write {', '.join(PART_WORDS)} into all names, or into none"
        )
    return [words[-1] if words else "" for words in found]


def expand_braces(pattern: str) -> list[str]:
    """The names that braces stand for; numbers have as many digits as the first.

    >>> expand_braces("a-{08..10}.{x,y}")
    ['a-08.x', 'a-08.y', 'a-09.x', 'a-09.y', 'a-10.x', 'a-10.y']
    """
    braces = _BRACES.search(pattern)
    if braces is None:
        return [pattern]
    words = braces[1].split(",")
    if counted := _RANGE.fullmatch(braces[1]):
        words = [f"{i:0{len(counted[1])}}" for i in range(int(counted[1]), int(counted[2]) + 1)]
    before, after = pattern[: braces.start()], pattern[braces.end() :]
    return [name for word in words for name in expand_braces(before + word + after)]
