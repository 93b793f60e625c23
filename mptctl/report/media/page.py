"""Make HTML pages of one file from the templates beside this file, with figures and scripts inside."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from typing import Any
from urllib.parse import quote

from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mptctl import __version__
from mptctl.errors import encodable, inert
from mptctl.report.media.document import Document, Drawing, Note, Table
from mptctl.report.media.numbers import percent
from mptctl.report.media.provenance import Provenance
from mptctl.report.media.svg import inline_svg

# A template writes this in its Content-Security-Policy in place of the digest of its one script.
SCRIPT_DIGEST = "SCRIPT-DIGEST"


def render_document(
    document: Document, provenance: Provenance | None = None, template: str = "document", **parts: Any
) -> str:
    """Return the page of a document as HTML that loads nothing; its policy allows its own script alone.

    Sentences come first, then tables, then figures, which are drawn here.

    Args:
        document: of any result.
        provenance: what the document was made from; None where that is not known.
        template: name of a file in `templates`, without ``.html.j2``: of the document, or one that extends
            it.
        parts: further variables of that template; text in them is escaped.
    """
    environment = Environment(
        loader=ChoiceLoader(
            [PackageLoader("mptctl.report.media", name) for name in ("templates", "scripts")]
        ),
        autoescape=True,
        finalize=_inert_value,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for each in (percent, anchor, script_json, drawn_inline, unbroken):
        environment.filters[each.__name__] = each
    shown = document.shown_in("page")
    page = environment.get_template(f"{template}.html.j2").render(
        version=__version__,
        provenance=provenance,
        document=document,
        sentences=[part.text for part in shown if isinstance(part, Note)],
        tables=[part for part in shown if isinstance(part, Table)],
        figures=document.drawings(),
        **parts,
    )
    return encodable(_allow_script(page))


def anchor(sample: str) -> str:
    """The id of a flip's element on a page, such as ``flip-7``; `anchorOf` in flips.js makes the same id."""
    return "flip-" + quote(inert(sample), safe="/!*()", errors="replace")


def unbroken(text: str) -> str:
    """Text with no-break spaces before ``%`` and ``points`` and within intervals such as ``1.4 to 2.2``."""
    before_unit = r"(?<=\d) (?=%|points?\b|to [+-]?\d)"
    within_interval = r"(?<=\d to) (?=[+-]?\d)"
    return re.sub(f"{before_unit}|{within_interval}", "\u00a0", text)


def script_json(value: Any) -> Markup:
    """Plain data as JSON without spaces, for a script: it cannot end the script or begin a tag."""
    text = json.dumps(_inert_value(value), separators=(",", ":"), ensure_ascii=False)
    for letter in "<>&'\u2028\u2029":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return Markup(text)  # noqa: S704  # what means something to HTML is escaped


def _inert_value(value: Any) -> Any:
    """A value of a template whose texts, also in lists and mappings, cannot deceive a reader; see `inert`."""
    if isinstance(value, str):
        return value if isinstance(value, Markup) else inert(value)
    if isinstance(value, list | tuple):
        return [_inert_value(each) for each in value]
    if isinstance(value, dict):
        return {key: _inert_value(each) for key, each in value.items()}
    return value


def drawn_inline(drawing: Drawing) -> Markup:
    """A figure as an SVG element, with its caption as its label."""
    svg = inline_svg(drawing.name, drawing.figure, drawing.caption)
    return Markup(svg)  # noqa: S704  # its texts are escaped


def _allow_script(page: str) -> str:
    """The page with the digest of its script in its policy, so that no other script runs.

    A page without a script is returned as it is.
    """
    script = re.search(r"<script>(.*?)</script>", page, re.DOTALL)
    if script is None:
        return page
    digest = hashlib.sha256(script.group(1).encode()).digest()
    return page.replace(SCRIPT_DIGEST, f"sha256-{base64.b64encode(digest).decode()}", 1)
