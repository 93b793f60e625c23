"""The files that an output may replace: earlier ones of its kind, and none that mptctl keeps for itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

WRITTEN_BY = "Written by mptctl"
# A line of its own among the first of a file that mptctl writes.
HTML_MARK = f"<!-- {WRITTEN_BY} -->"
MARKDOWN_MARK = f"<!-- {WRITTEN_BY} as Markdown -->"
JUNIT_MARK = f"<!-- {WRITTEN_BY} as JUnit -->"
LATEX_MARK = f"% {WRITTEN_BY}"
# The mark stands within so many bytes: after a document type, or after what matplotlib says of a figure.
HEAD_BYTES = 2000


@dataclass(frozen=True)
class OutputKind:
    """A kind of output.

    Attributes:
        what: the name of it in messages.
        known: tells an earlier output of this kind by its content; may raise OSError.
        endings: of its files, the first one for messages; a file with another ending would be opened by
            another program. Empty: any.
    """

    what: str
    known: Callable[[Path], bool]
    endings: tuple[str, ...] = ()


def has_mark(path: Path, mark: str, lines: int = 1) -> bool:
    """Tell whether one of the first lines of a file is a mark."""
    return mark.encode() in [line.strip() for line in _head(path).splitlines()[:lines]]


def has_header(path: Path, columns: Iterable[str]) -> bool:
    """Tell whether the first line of a file begins with these columns, divided by commas."""
    return _head(path).startswith(",".join(columns).encode() + b",")


def begins_with(path: Path, start: bytes) -> bool:
    """Tell whether a file begins with these bytes and has our words near its beginning."""
    head = _head(path)
    return head.startswith(start) and WRITTEN_BY.encode() in head


def _head(path: Path) -> bytes:
    with open(path, "rb") as file:
        return file.read(HEAD_BYTES)


HTML = OutputKind("HTML page", lambda path: has_mark(path, HTML_MARK, lines=3), (".html", ".htm"))
MARKDOWN = OutputKind("Markdown", lambda path: has_mark(path, MARKDOWN_MARK))
JUNIT = OutputKind("JUnit XML", lambda path: has_mark(path, JUNIT_MARK))
LATEX = OutputKind("LaTeX", lambda path: has_mark(path, LATEX_MARK))
# A file that lines are added to; nothing in it is lost, and its reader says where it is no such file.
APPENDED = OutputKind("file of lines", lambda path: True)
PNG = OutputKind("PNG figure", lambda path: begins_with(path, b"\x89PNG\r\n\x1a\n"))
SVG = OutputKind("SVG figure", lambda path: begins_with(path, b"<?xml"))


def figure_kind(path: Path) -> OutputKind:
    """The kind of a figure by the ending of its path."""
    return SVG if path.suffix.lower() == ".svg" else PNG


# Names of the files that mptctl keeps in folders of its own, as patterns.
RUN_FILES = (
    "best.pt", "last.pt", "previous.pt", "nonfinite.pt", "recipe.yaml", "split.json", "metrics.jsonl",
    "environment.json", "trackers.json", "answers.npz", "adjust.svg", "manifest.npz", "manifest-*.npz",
    "columns-*.parquet",
)  # fmt: skip
SEARCH_FILES = ("best.yaml", "trials.json", "tune.png", "tune.html")
SPLIT_FILES = ("split.json", "manifest.npz", "manifest-*.npz", "columns-*.parquet")
# Of a run that `study --results` keeps, beside those that have the names of a run's.
RESULT_FILES = ("metrics.jsonl.gz",)
PACK_FILES = ("pack.json", "pack-files.jsonl")

KEPT_FILES = tuple(dict.fromkeys((*RUN_FILES, *SEARCH_FILES, *SPLIT_FILES, *RESULT_FILES, *PACK_FILES)))


def is_kept(name: str) -> bool:
    """Tell whether mptctl keeps a file of that name in a folder of its own."""
    return any(fnmatchcase(name, pattern) for pattern in KEPT_FILES)
