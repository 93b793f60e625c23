"""A hook of MkDocs: add the root's pages to the site, cut the reference into three pages, and mend links to them."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

from markdown.extensions.toc import slugify
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
# Files that pages link to, which are no pages themselves.
FILES = ("LICENSE", "CITATION.cff")
# Sections of docs/reference.md that are pages of their own on the site; all others stay on its page.
SECTIONS = {"Recipe keys": "reference-keys.md", "Files and JSON": "reference-files.md"}
# The target of a link or picture in Markdown, or of a picture in HTML.
TARGET = re.compile(r'(?<=\]\()([^)\s]+)(?=\))|(?<=src=")[^"]+|(?<=srcset=")[^"]+')


def on_files(files: Files, config: Any) -> Files:
    """Add the pages and files of the root to the files of the site, without ``docs/`` in their links."""
    for name in (*PAGES, *FILES):
        text = (ROOT / name).read_text(encoding="utf-8")
        content = TARGET.sub(lambda link: link[0].removeprefix("docs/"), text) if name in PAGES else text
        files.append(File.generated(config, name, content=content))
    for title, name in SECTIONS.items():
        # Headings of a section are one level higher on a page of their own.
        content = re.sub(r"^#(?=#)", "", _section(title), flags=re.MULTILINE)
        files.append(File.generated(config, name, content=content))
    return files


def _section(title: str) -> str:
    """The text of a section of the reference, with its heading."""
    text = (ROOT / "docs" / "reference.md").read_text(encoding="utf-8")
    found = re.search(rf"^## {title}$.*?(?=^## |\Z)", text, re.DOTALL | re.MULTILINE)
    assert found, f"docs/reference.md has no section {title}"
    return found[0]


@cache
def _page_of_anchor() -> dict[str, str]:
    """The page of every heading that is no longer on the reference's own page."""
    return {
        slugify(heading.replace("`", ""), "-"): name
        for title, name in SECTIONS.items()
        for heading in re.findall(r"^##+ (.*)$", _section(title), re.MULTILINE)
    }


def _moved(target: str) -> str:
    """A link to the reference, to the page that has its anchor."""
    page, _, anchor = target.partition("#")
    if not page.endswith("reference.md") or anchor not in _page_of_anchor():
        return target
    return f"{page.removesuffix('reference.md')}{_page_of_anchor()[anchor]}#{anchor}"


def on_page_markdown(markdown: str, page: Page, **keys: Any) -> str:
    """Return the text of a page without the sections that are pages of their own, and its links as the site has them.

    Links to the root have one ``../`` less: the site has the root's pages inside docs/.
    """
    if page.file.src_uri == "reference.md":
        for title in SECTIONS:
            markdown = markdown.replace(_section(title), "")
    to_docs = "../" * page.file.src_uri.count("/")
    return TARGET.sub(lambda link: _moved(re.sub(rf"^{re.escape(to_docs)}\.\./", to_docs, link[0])), markdown)
