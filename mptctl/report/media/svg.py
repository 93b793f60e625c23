"""One style for all figures, and figures as SVG that follows the page's theme."""

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

from mptctl.files import OpenOutput, writing
from mptctl.files.output_kinds import WRITTEN_BY

# Okabe and Ito's palette, which stays apart for colour-blind readers; INK and FAINT follow the page's theme.
OLD, NEW, LOST, FRESH, INK, FAINT = "#7f7f7f", "#0072b2", "#d55e00", "#e69f00", "#1b1f23", "#c8ccd1"


THEMED = {OLD: "old", NEW: "new", LOST: "lost", FRESH: "fresh", INK: "ink", FAINT: "faint"}


# Inches. Small, so that the smallest letters, of eight points, are ten pixels where a page is 400 wide.
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


def inline_svg(name: str, figure: Figure, seen: str) -> str:
    """A figure as an SVG element whose colours are CSS variables (``--ink``, ``--old``, ...).

    Args:
        name: its id on the page.
        figure: is drawn.
        seen: what is to be seen, which is read out in its place.
    """
    text = io.StringIO()
    with style(), matplotlib.rc_context({"svg.hashsalt": "mptctl"}):  # the same page from the same numbers
        figure.savefig(text, format="svg", transparent=True, metadata=figure_metadata("svg"))
    svg = text.getvalue()[text.getvalue().index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    # Inside HTML neither namespaces nor a fixed size are wanted.
    head, body = svg.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', head)
    body = body.replace("xlink:href", "href")
    # Every figure counts its ids from 1; on one page they must stay apart.
    body = re.sub(r'(\bid="|href="#|url\(#)', rf"\g<1>{name}-", body)
    for colour, variable in THEMED.items():
        body = body.replace(colour, f"var(--{variable})")
    return f'<svg {box.group(0) if box else ""} role="img" aria-label="{html.escape(seen)}">{body}'


def short(label: str, letters: int) -> str:
    """A label with room for some letters; one that is longer ends in an ellipsis."""
    return label if len(label) <= letters else label[: letters - 1] + "…"


@contextmanager
def style() -> Iterator[None]:
    """Sets the look of all figures while they are drawn and written."""
    with matplotlib.rc_context(_STYLE), warnings.catch_warnings():
        # The browser, not matplotlib, draws the letters of an SVG.
        warnings.filterwarnings("ignore", message="Glyph .* missing from")
        yield


def save_figure(figure: Figure, path: Path, open_output: OpenOutput = writing) -> None:
    """Write a figure as PNG or SVG, as the path's ending says: the same bytes from the same numbers.

    Raises:
        StorageError, UsageError: it cannot be written.
    """
    suffix = path.suffix.lower().removeprefix(".")
    with style(), matplotlib.rc_context({"svg.hashsalt": "mptctl"}), open_output(path) as stream:
        figure.savefig(stream, format=suffix, dpi=200, facecolor="white", metadata=figure_metadata(suffix))


def figure_metadata(suffix: str) -> dict[str, str | None]:
    """The same metadata for the same figure, by which it is known as ours later on; see `output_kinds`."""
    if suffix == "svg":
        return {"Date": None, "Creator": WRITTEN_BY, "Format": None, "Type": None}
    return {"Software": WRITTEN_BY}
