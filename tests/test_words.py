"""Words that a stranger does not understand stand in no help, no message, no kept screen and no user's page."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.docs

ROOT = Path(__file__).parent.parent
# What is said instead: docs/glossary.md.
UNUSED = (
    r"holds the limit",  # contains the limit: undecided; is kept: passed
    r"holds zero",  # contains zero
    r"is kept to\b",
    r"untreated",  # plain update
    r"careful update",  # MPT update
    r"\bverbs?\b",  # command
    r"opponents?\b",  # rival methods
    r"contestants?\b",
    r"(a|the) bias (is )?(taken )?off\b",  # shift
    r"no bias (brings|meets|reaches)",
    r"(get|buy)s? for free",
    r"bias (that )?is free",
    r"error old\b",  # error of OLD; error, old classes
    r"one and the same",
    r"is let pass",
    r"not decided against",
)
IN_PROGRAM = (*UNUSED, r"(right|wrong|lost) answers?\b", r"answers of teachers")  # predictions
# Pages for those who work on the program, and records of experiments, whose protocols stay word for word.
FOR_AUTHORS = {"results.md", "reference.md"}
PAGES = ["../README.md", *sorted({page.name for page in (ROOT / "docs").glob("*.md")} - FOR_AUTHORS)]


def text_of(module: Path) -> Iterator[tuple[int, str]]:
    """The strings of a module that may be printed: all but docstrings; what an f-string fills in is a dot."""
    tree = ast.parse(module.read_text(encoding="utf-8"))
    silent = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts = {id(part) for node in ast.walk(tree) if isinstance(node, ast.JoinedStr) for part in node.values}
    for node in ast.walk(tree):
        if id(node) in silent | parts:
            continue
        if isinstance(node, ast.JoinedStr):
            words = [str(part.value) if isinstance(part, ast.Constant) else "." for part in node.values]
            yield node.lineno, "".join(words)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


def found(text: str, phrases: Iterable[str] = IN_PROGRAM) -> list[str]:
    flat = " ".join(text.split())
    return [match.group() for match in re.finditer("|".join(phrases), flat, re.IGNORECASE)]


def test_no_string_of_the_program_has_one() -> None:
    modules = sorted((ROOT / "mptctl").rglob("*.py"))
    strings = [(path, line, text) for path in modules for line, text in text_of(path) if " " in text]
    assert len(strings) > 2_000
    bad = [
        f"{path.relative_to(ROOT)}:{line}: {words}" for path, line, text in strings if (words := found(text))
    ]
    assert not bad, "\n".join(bad)


def test_no_help_has_one() -> None:
    """The reference page is the help of all commands, and every field of their JSON."""
    help_of_all = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    assert "`mptctl evaluate`" in help_of_all
    assert found(help_of_all) == []


def test_no_kept_screen_has_one() -> None:
    screens = sorted((ROOT / "tests" / "report" / "golden").glob("*.*"))
    assert len(screens) > 10
    assert {path.name: found(path.read_text(encoding="utf-8")) for path in screens} == {
        path.name: [] for path in screens
    }


@pytest.mark.parametrize("name", PAGES)
def test_no_page_for_users_has_one(name: str) -> None:
    assert found((ROOT / "docs" / name).read_text(encoding="utf-8"), UNUSED) == []
