"""Decides which files an output may replace: earlier outputs of its kind, but no files of runs or splits."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path

from mptctl.errors import UsageError

WRITTEN_BY = "Written by mptctl"
# One of the first lines of a file that mptctl writes, by format.
HTML_MARK = f"<!-- {WRITTEN_BY} -->"
MARKDOWN_MARK = f"<!-- {WRITTEN_BY} as Markdown -->"
JUNIT_MARK = f"<!-- {WRITTEN_BY} as JUnit -->"
LATEX_MARK = f"% {WRITTEN_BY}"
# A mark stands within these first bytes, after a document type or matplotlib's metadata.
HEAD_BYTES = 2000


@dataclass(frozen=True)
class OutputKind:
    """A kind of output file.

    Attributes:
        what: name of the kind in messages.
        known: tells whether a file is an output of this kind, by its content; may raise OSError.
        endings: allowed suffixes, by which other programs open the file; messages name the first. Empty: any.
    """

    what: str
    known: Callable[[Path], bool]
    endings: tuple[str, ...] = ()

    def refuse_other(self, path: Path, named: str) -> None:
        """Raise UsageError where a file holds anything but an earlier output of this kind; it may be empty.

        Args:
            path: of the file, which is there.
            named: what the user wrote for it, for the message.
        """
        try:
            may_be_replaced = not path.stat().st_size or self.known(path)
        except OSError as error:
            raise UsageError(f"{named}: cannot be read ({error.strerror}); name another file") from error
        if not may_be_replaced:
            raise UsageError(
                f"{named}: is there, and is no {self.what} that mptctl wrote; name another file, or delete "
                "or rename it"
            )


def has_mark(path: Path, mark: str, lines: int = 1) -> bool:
    """Tell whether one of the first ``lines`` lines of a file is a mark."""
    return mark.encode() in [line.strip() for line in _head(path).splitlines()[:lines]]


def has_header(path: Path, columns: Iterable[str]) -> bool:
    """Tell whether the first line of a file begins with these column names and has further columns."""
    return _head(path).startswith(",".join(columns).encode() + b",")


def is_figure_of_ours(path: Path, start: bytes) -> bool:
    """Tell whether a file begins with these bytes and has `WRITTEN_BY` in its first bytes."""
    head = _head(path)
    return head.startswith(start) and WRITTEN_BY.encode() in head


def _head(path: Path) -> bytes:
    """Read the first `HEAD_BYTES` of a file."""
    with open(path, "rb") as file:
        return file.read(HEAD_BYTES)


HTML = OutputKind("HTML page", lambda path: has_mark(path, HTML_MARK, lines=3), (".html", ".htm"))
MARKDOWN = OutputKind("Markdown", lambda path: has_mark(path, MARKDOWN_MARK))
JUNIT = OutputKind("JUnit XML", lambda path: has_mark(path, JUNIT_MARK))
LATEX = OutputKind("LaTeX", lambda path: has_mark(path, LATEX_MARK))
# A file to which lines are added: any file is allowed, since nothing is lost. Its reader checks the content.
APPENDED = OutputKind("file of lines", lambda path: True)
PNG = OutputKind("PNG figure", lambda path: is_figure_of_ours(path, b"\x89PNG\r\n\x1a\n"))
SVG = OutputKind("SVG figure", lambda path: is_figure_of_ours(path, b"<?xml"))


def figure_kind(path: Path) -> OutputKind:
    """The kind of a figure, by the suffix of its path: SVG, else PNG."""
    return SVG if path.suffix.lower() == ".svg" else PNG


# Names of the files that mptctl keeps in folders of its own, as patterns.
RUN_FILES = (
    "best.pt", "last.pt", "previous.pt", "nonfinite.pt", "recipe.yaml", "split.json", "metrics.jsonl",
    "environment.json", "trackers.json", "answers.npz", "adjust.svg", "split-*.arrow",
    "columns-*.parquet",
)  # fmt: skip
SEARCH_FILES = ("best.yaml", "trials.json", "tune.png", "tune.html")
SPLIT_FILES = ("split.json", "split-*.arrow", "columns-*.parquet")
# Further files of a run that `study --results` keeps.
RESULT_FILES = ("metrics.jsonl.gz",)
PACK_FILES = ("pack.json", "pack-files.jsonl")

KEPT_FILES = tuple(dict.fromkeys((*RUN_FILES, *SEARCH_FILES, *SPLIT_FILES, *RESULT_FILES, *PACK_FILES)))


def is_kept(name: str) -> bool:
    """Tell whether a name is that of a file in mptctl's own folders, such as those of runs and splits."""
    return any(fnmatchcase(name, pattern) for pattern in KEPT_FILES)
