"""One HTML page that needs nothing but itself: verdict, tables, figures, and the flipped pictures."""

from __future__ import annotations

from dataclasses import dataclass

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from mptctl import __version__
from mptctl.evaluation.flip_report import FlippedSample, FlipReport
from mptctl.report import wording
from mptctl.report.flips_figures import draw_figures
from mptctl.report.gallery import PictureReader, data_url
from mptctl.report.svg import inline_svg

# Rows of a table on the page; the rest is in the JSON.
ROWS = 200

CAPTIONS = {
    "margins": "Logit margins before and after. Left of the line the answer is wrong.",
    "reliability": "Reliability: on the diagonal, confidence means what it says. Area of a mark: samples.",
    "confidence": "Flips by how sure the old model was, with 95% intervals.",
    "flow": "From which class flips came, and which answer took them.",
    "bias": "What is free: a bias taken off the new classes' logits after training.",
}


@dataclass(frozen=True)
class Tile:
    """One flipped sample of the gallery; `picture` is a data URL."""

    sample: FlippedSample
    picture: str | None


def render_html(report: FlipReport, picture: PictureReader | None = None) -> str:
    """The page as text.

    Args:
        report: the comparison.
        picture: reads the picture of a sample; without it the gallery shows answers only.
    """
    environment = Environment(
        loader=PackageLoader("mptctl.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "percent": wording.percent,
        "span": wording.format_interval,
        "ratio": wording.format_count,
    }
    tiles = []
    for sample in report.worst_flips:
        pixels = picture(sample.id) if picture is not None else None
        tiles.append(Tile(sample, None if pixels is None else data_url(pixels)))
    return environment.get_template("page.html.j2").render(
        report=report,
        verdict=wording.verdict(report),
        rates=wording.rate_lines(report),
        models=wording.model_lines(report),
        # Markup: drawn by us, with every label escaped by the SVG writer.
        figures=[
            (name, CAPTIONS[name], Markup(inline_svg(name, figure)))
            for name, figure in draw_figures(report).items()
        ],
        tiles=tiles,
        rows=ROWS,
        version=__version__,
    )
