"""A hook of MkDocs: the pages at the root of the repository become pages of the site, and their links are set right."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
# Files that a page links to and that are no pages.
FILES = ("LICENSE", "CITATION.cff")
# The target of a link or picture in Markdown, or of a picture in HTML.
TARGET = re.compile(r'(?<=\]\()([^)\s]+)(?=\))|(?<=src=")[^"]+|(?<=srcset=")[^"]+')


def on_files(files: Files, config: Any) -> Files:
    """Add them beside the pages of docs/."""
    for name in (*PAGES, *FILES):
        text = (ROOT / name).read_text(encoding="utf-8")
        content = TARGET.sub(lambda link: link[0].removeprefix("docs/"), text) if name in PAGES else text
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **keys: Any) -> str:
    """Pages of docs/ name those at the root as seen from their own folder."""
    up = "../" * page.file.src_uri.count("/")
    return TARGET.sub(lambda link: re.sub(rf"^{re.escape(up)}\.\./", up, link[0]), markdown)
