"""One HTML page that needs nothing but itself: verdict, tables, figures, and the flipped pictures."""

from __future__ import annotations

from dataclasses import dataclass

from mptctl.evaluation.flip_report import FlippedSample, FlipReport
from mptctl.report import wording
from mptctl.report.causes_wording import cause_lines, causes_sentence
from mptctl.report.flips_figures import draw_figures
from mptctl.report.gallery import PictureReader, data_url
from mptctl.report.page import inline_figure, render_page
from mptctl.report.reliability import CAPTION as RELIABILITY

# Rows of a table on the page; the rest is in the JSON.
ROWS = 200

CAPTIONS = {
    "margins": "Logit margins before and after. Left of the line the answer is wrong.",
    "reliability": RELIABILITY,
    "confidence": "Flips by how sure the old model was, with 95 % intervals.",
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
    tiles = []
    for sample in report.worst_flips:
        pixels = picture(sample.id) if picture is not None else None
        tiles.append(Tile(sample, None if pixels is None else data_url(pixels)))
    return render_page(
        "page",
        report=report,
        verdict=wording.verdict(report),
        rates=wording.rate_lines(report),
        models=wording.model_lines(report),
        causes=cause_lines(report),
        causes_sentence=causes_sentence(report),
        slices_sentence=wording.slices_sentence(report),
        figures=[
            inline_figure(name, CAPTIONS[name], figure) for name, figure in draw_figures(report).items()
        ],
        tiles=tiles,
        rows=ROWS,
    )
