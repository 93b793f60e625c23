"""Finds the files of a place: one file, a pattern with braces or ``*``, or a folder."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path

from mptctl.data.listing.image_folder import PART_WORDS, list_class_folders
from mptctl.errors import DataError, some

_BRACES = re.compile(r"\{([^{}]*)\}")
_RANGE = re.compile(r"(\d+)\.\.(\d+)")
_WORD = re.compile("[a-z]+")


def is_place_of_files(place: str, suffix: str) -> bool:
    """Tell whether a place names files with a suffix.

    True where the place itself ends in the suffix, and for a folder of such files without class folders.
    """
    if place.endswith(suffix):
        return True
    files = glob.glob(os.path.join(glob.escape(place), f"*{suffix}"))
    return bool(files) and not list_class_folders(Path(place))


def root_folder_of(place: str) -> Path:
    """Return the folder that all files of a place lie below, as an absolute path."""
    if os.path.isdir(place):
        return Path(place).resolve()
    before_pattern = re.split(r"[{*?\[]", place, maxsplit=1)[0]
    return Path(os.path.dirname(before_pattern) or ".").resolve()


def list_files(place: str, suffix: str) -> list[Path]:
    """List the files of a place, as absolute paths without repetition.

    Args:
        place: a file, a pattern of files, or a folder.
        suffix: suffix of the files that are taken from a folder, at any depth.

    Raises:
        DataError: there is no file, or one that the pattern names without ``*`` is missing.
    """
    below_folder = os.path.join(glob.escape(place), f"**/*{suffix}")
    patterns = [below_folder] if os.path.isdir(place) else expand_braces(place)
    files: list[str] = []
    for pattern in patterns:
        if glob.has_magic(pattern):
            files += sorted(glob.glob(pattern, recursive=True))
        else:  # the name of one file
            files.append(pattern)
    missing = [file for file in files if not os.path.isfile(file)]
    if missing:
        raise DataError(
            f"{place}: {len(missing):,} of {len(files):,} shards are not there: {some(missing)}; "
            "correct the pattern, or fetch them"
        )
    if not files:
        raise DataError(f"{place}: names no {suffix} file; correct the pattern")
    return [Path(file).resolve() for file in dict.fromkeys(files)]


def find_part_words(names: Sequence[str], place: str) -> list[str]:
    """Find the word for a part in each path, such as ``train`` in ``train-000.tar``.

    Args:
        names: paths of shards.
        place: the place that the shards are of, for messages.

    Returns:
        The last word of `PART_WORDS` in each path; "" for each where no path has one.

    Raises:
        DataError: some paths have such a word, and others do not.
    """
    part_words = [[word for word in _WORD.findall(name.lower()) if word in PART_WORDS] for name in names]
    if any(part_words) and not all(part_words):
        without = [name for name, words in zip(names, part_words, strict=True) if not words]
        raise DataError(
            f"{place}: some shards say in their names which part they are, and others do not "
            f"({some(without)}); write {', '.join(PART_WORDS)} into all names, or into none"
        )
    return [words[-1] if words else "" for words in part_words]


def expand_braces(pattern: str) -> list[str]:
    """List the names that a pattern with braces stands for; numbers of a range have the digits of its first.

    >>> expand_braces("a-{08..10}.{x,y}")
    ['a-08.x', 'a-08.y', 'a-09.x', 'a-09.y', 'a-10.x', 'a-10.y']
    """
    braces = _BRACES.search(pattern)
    if braces is None:
        return [pattern]
    words = braces[1].split(",")
    if number_range := _RANGE.fullmatch(braces[1]):
        first, last = number_range.groups()
        words = [f"{number:0{len(first)}}" for number in range(int(first), int(last) + 1)]
    before, after = pattern[: braces.start()], pattern[braces.end() :]
    return [name for word in words for name in expand_braces(before + word + after)]
