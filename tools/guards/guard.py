"""Records of a guard against a fault, and of the patches of the source that take it out."""

from __future__ import annotations

from typing import NamedTuple


class Patch(NamedTuple):
    """An exact text that a file contains once, and the text that replaces it; the path is from the root."""

    file: str
    text: str
    without: str


class Guard(NamedTuple):
    """A guard: what it does in a few words, and the patches that take it out."""

    what: str
    patches: tuple[Patch, ...]


def one(what: str, file: str, text: str, without: str) -> Guard:
    """A guard that one patch takes out, of a file whose path is given from mptctl/."""
    return Guard(what, (Patch(f"mptctl/{file}", text, without),))
