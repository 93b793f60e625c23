"""HTML pages: their templates, one style and head in `base.html.j2`, figures inside the page."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mptctl import __version__
from mptctl.report.media.document import Document, Drawing, Note, Table
from mptctl.report.media.numbers import percent
from mptctl.report.media.provenance import Provenance
from mptctl.report.media.svg import inline_svg

# Where a page's policy names the one script that may run.
SCRIPT_DIGEST = "SCRIPT-DIGEST"


def render_page(template: str, *, provenance: Provenance | None = None, **parts: Any) -> str:
    """One page that needs nothing but itself.

    Args:
        template: its name, without ``.html.j2``; it extends `base.html.j2`.
        provenance: what it was made from; None where that is not known.
        parts: what the template shows; text in them stays text.
    """
    environment = Environment(
        loader=ChoiceLoader(
            [PackageLoader("mptctl.report.media", name) for name in ("templates", "scripts")]
        ),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: tuple[Callable[..., str], ...] = (percent, anchor, compact, drawn_inline, unbroken)
    environment.filters |= {each.__name__: each for each in filters}
    page = environment.get_template(f"{template}.html.j2")
    return _allow_script(page.render(version=__version__, provenance=provenance, **parts))


def anchor(sample: str) -> str:
    """The name of a flip in the page's address; `anchorOf` in ``scripts/flips.js`` makes the same."""
    return "flip-" + quote(sample, safe="/!*()", errors="replace")


def render_document(document: Document, provenance: Provenance | None = None) -> str:
    """The page of a document: sentences, then tables, then figures.

    Args:
        document: of any result.
        provenance: what it was made from.
    """
    parts = document.shown_in("page")
    return render_page(
        "document",
        provenance=provenance,
        document=document,
        sentences=[part.text for part in parts if isinstance(part, Note)],
        tables=[part for part in parts if isinstance(part, Table)],
        figures=document.drawings(),
    )


def unbroken(text: str) -> str:
    """Text in which no line ends within an interval, or between a number and its unit."""
    return re.sub(r"(?<=\d) (?=%|points?\b|to [+-]?\d)|(?<=\d to) (?=[+-]?\d)", "\u00a0", text)


def compact(value: Any) -> Markup:
    """Plain data as JSON that can stand in a script: nothing in it ends the script or begins a tag."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
    for letter in "<>&'\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)  # noqa: S704  # what means something to HTML is escaped


def drawn_inline(drawing: Drawing) -> Markup:
    """A figure as SVG whose labels are escaped, with its words for readers who do not see it."""
    svg = inline_svg(drawing.name, drawing.draw(), drawing.words)
    return Markup(svg)  # noqa: S704  # its texts are escaped


def _allow_script(page: str) -> str:
    """The page with the digest of its script in its policy, so that no other one runs."""
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)
    if script is None:
        return page
    digest = hashlib.sha256(script.group(1).encode()).digest()
    return page.replace(SCRIPT_DIGEST, f"sha256-{base64.b64encode(digest).decode()}", 1)
