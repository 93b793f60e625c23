"""The style of all figures; figures as files, and as SVG that follows the theme of a page."""

from __future__ import annotations

import html
import io
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import matplotlib
from matplotlib.figure import Figure

from mptctl.errors import inert
from mptctl.files import OpenOutput, writing

# Old model, new model, flips and new classes in Okabe and Ito's palette, which colour-blind readers can tell
# apart; then letters and lines.
OLD, NEW, LOST, FRESH, INK, FAINT = "#7f7f7f", "#0072b2", "#d55e00", "#e69f00", "#1b1f23", "#c8ccd1"
# CSS variables of a page, by the colour that each one replaces.
THEMED = {OLD: "old", NEW: "new", LOST: "lost", FRESH: "fresh", INK: "ink", FAINT: "faint"}
# Inches, width and height. On a page 400 pixels wide the smallest letters, 8 points, are then 10 pixels high.
SIZE = (3.8, 2.8)
_STYLE = {
    "font.size": 9.0,
    "font.family": "sans-serif",
    "text.parse_math": False,  # a class may be called $x$
    "text.color": INK,
    "axes.labelcolor": INK,
    "axes.edgecolor": FAINT,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": FAINT,
    "grid.linewidth": 0.4,
    "xtick.color": INK,
    "ytick.color": INK,
    "legend.frameon": False,
    "legend.fontsize": 8.0,
    "figure.constrained_layout.use": True,
    "svg.fonttype": "none",
}


def inline_svg(name: str, figure: Figure, label: str) -> str:
    """Draw a figure as an SVG element whose colours are CSS variables (``--ink``, ``--old``, ...).

    Args:
        name: put before all ids in the SVG, so that they differ from those of other figures on the page.
        figure: to draw.
        label: what the figure shows, for screen readers.
    """
    stream = io.StringIO()
    with style(), matplotlib.rc_context({"svg.hashsalt": "mptctl"}):  # the same page from the same numbers
        figure.savefig(stream, format="svg", transparent=True, metadata=figure_metadata("svg"))
    text = stream.getvalue()
    svg = text[text.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # Of the opening tag only the view box stays: HTML needs no namespaces, and the page sets the size.
    opening_tag, body = svg.split(">", 1)
    view_box = re.search(r'viewBox="[^"]*"', opening_tag)
    body = body.replace("xlink:href", "href")
    # Every figure counts its ids from 1; on one page they must stay apart.
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", body)
    for colour, variable in THEMED.items():
        body = body.replace(colour, f"var(--{variable})")
    size = view_box.group(0) if view_box else ""
    return inert(f'<svg {size} role="img" aria-label="{html.escape(label)}">{body}')


def shorten(label: str, letters: int) -> str:
    """A label of at most so many letters; the last letter of a shortened label is an ellipsis."""
    return label if len(label) <= letters else label[: letters - 1] + "…"


@contextmanager
def style() -> Iterator[None]:
    """Apply the look of all figures while they are drawn and written in the ``with`` block."""
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        # The browser, not matplotlib, draws the letters of an SVG.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def save_figure(figure: Figure, path: Path, open_output: OpenOutput = writing) -> None:
    """Write a figure as PNG or SVG, by the ending of its path; the same figure gives the same bytes.

    Args:
        figure: to draw.
        path: ends in ``.png`` or ``.svg``.
        open_output: opens the file for writing.

    Raises:
        StorageError, UsageError: the file cannot be written.
    """
    suffix = path.suffix.lower().removeprefix(".")
    with style(), matplotlib.rc_context({"svg.hashsalt": "mptctl"}), open_output(path) as stream:
        drawn = io.BytesIO()
        figure.savefig(drawn, format=suffix, dpi=200, facecolor="white", metadata=figure_metadata(suffix))
        content = drawn.getvalue()
        if suffix == "svg":  # its names are text, in which nothing may deceive a reader
            content = inert(content.decode()).encode()
        stream.write(content)


def figure_metadata(suffix: str) -> dict[str, str | None]:
    """Metadata of a figure's file: no date, and the program's name.

    Args:
        suffix: ``png`` or ``svg``, without the dot.
    """
    if suffix == "svg":
        return {"Date": None, "Creator": "Written by mptctl", "Format": None, "Type": None}
    return {"Software": "Written by mptctl"}
