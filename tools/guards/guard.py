"""Guards of rows of the fault table, and the patches that take them out."""

from __future__ import annotations

from typing import NamedTuple


class Patch(NamedTuple):
    """An exact piece of a file, and what takes its place."""

    file: str
    text: str
    without: str


class Guard(NamedTuple):
    """What keeps a row, in a few words, and what takes it out."""

    what: str
    patches: tuple[Patch, ...]


def one(what: str, file: str, text: str, without: str) -> Guard:
    return Guard(what, (Patch(f"mptctl/{file}", text, without),))
