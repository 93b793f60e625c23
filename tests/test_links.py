"""Every link and picture in the documentation leads to a file that is there, and to a heading in it."""

from __future__ import annotations

import re
import tomllib
from functools import cache
from pathlib import Path

import pytest

from tests.common import ROOT

pytestmark = pytest.mark.docs

PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def prose(path: Path) -> str:
    """A page without its code."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^    .*$", "", text, flags=re.MULTILINE))


@cache
def anchors(path: Path) -> set[str]:
    """What a browser and GitHub call the headings of a page."""
    text = re.sub(r"^```.*?^```", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
    found: set[str] = set()
    for heading in re.findall(r"^#+ (.*)$", text, re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).strip().lower()
        found.add(re.sub(r"\s", "-", re.sub(r"[^\w\s-]", "", plain)))
    return found


def broken(path: Path) -> list[str]:
    """Links of a page that lead nowhere."""
    wrong = []
    for target in LINK.findall(prose(path)):
        if target.startswith(("https://", "http://", "mailto:")):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        if not there.is_file() or not there.is_relative_to(ROOT) or (anchor and anchor not in anchors(there)):
            wrong.append(target)
    return wrong


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken(page) == []


def test_a_broken_link_would_be_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.test_links.ROOT", tmp_path)
    (tmp_path / "there.md").write_text("# A `b` c\n")
    page = tmp_path / "page.md"
    page.write_text(
        "[1](there.md#a-b-c) [2](gone.md) ![3](there.md#gone) `[4](gone.md)`\n\n    [5](gone.md)\n"
    )
    assert broken(page) == ["gone.md", "there.md#gone"]


def test_pages_and_examples_name_the_repository_that_pyproject_names() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    files = [*PAGES, ROOT / "CITATION.cff", *(ROOT / "examples").rglob("*.yml")]
    named = {
        name
        for path in files
        for name in re.findall(r"(?:uses: |github\.com/)([\w.-]+/mptctl)\b", path.read_text(encoding="utf-8"))
    }
    assert {f"https://github.com/{name}" for name in named} == {project["urls"]["Repository"]}


def test_every_page_is_on_the_site() -> None:
    """By name in mkdocs.yml, so that none is left out of the navigation; reference-*.md are cut out of reference.md."""
    listed = set(
        re.findall(r"(\w[\w/-]*\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    )
    assert {name for name in listed if not name.startswith("reference-")} == {
        str(page.relative_to(ROOT)).removeprefix("docs/") for page in PAGES
    }
