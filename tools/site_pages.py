"""A hook of MkDocs: add the pages at the root of the repository to the site, and mend links to and from them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parent.parent
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md")
# Files that pages link to, which are no pages themselves.
FILES = ("LICENSE", "CITATION.cff")
# The target of a link or picture in Markdown, or of a picture in HTML.
TARGET = re.compile(r'(?<=\]\()([^)\s]+)(?=\))|(?<=src=")[^"]+|(?<=srcset=")[^"]+')


def on_files(files: Files, config: Any) -> Files:
    """Add the pages and files of the root to the files of the site, without ``docs/`` in their links."""
    for name in (*PAGES, *FILES):
        text = (ROOT / name).read_text(encoding="utf-8")
        content = TARGET.sub(lambda link: link[0].removeprefix("docs/"), text) if name in PAGES else text
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **keys: Any) -> str:
    """Return the text of a page with one ``../`` less in links to the root, which the site has inside docs/."""
    to_docs = "../" * page.file.src_uri.count("/")
    return TARGET.sub(lambda link: re.sub(rf"^{re.escape(to_docs)}\.\./", to_docs, link[0]), markdown)
