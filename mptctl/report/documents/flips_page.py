"""One HTML page that needs nothing but itself: verdict, tables, figures, and the flipped samples."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from mptctl.evaluation.flip_report import FlippedSample, FlipReport
from mptctl.report.documents import wording
from mptctl.report.documents.flip_list import FIRST_ROWS, flip_list, order_sentence
from mptctl.report.documents.flip_tables import (
    causes_table,
    classes_table,
    models_table,
    pairs_table,
    rates_table,
    slices_table,
    takers_table,
)
from mptctl.report.figures.flips import drawings
from mptctl.report.media.page import render_page
from mptctl.report.media.pictures import PictureReader, data_url
from mptctl.report.media.provenance import Provenance

# Rows of a table on the page; the rest is in the JSON.
ROWS = 200
# From here on a picture is shown smoothed; a smaller one pixel by pixel.
SMOOTH = 96

FILTERS = (("class", "Class"), ("cause", "Cause"), ("slice", "Slice"), ("waived", "Waived"))


class Picture(NamedTuple):
    """A picture of the list: a data URL, and whether it is large enough to be smoothed."""

    url: str
    smooth: bool


def render_html(
    report: FlipReport,
    picture: PictureReader | None = None,
    flips: Sequence[FlippedSample] | None = None,
    provenance: Provenance | None = None,
) -> str:
    """The page as text.

    Args:
        report: the comparison.
        picture: reads the picture of a sample; it is asked for those of the report's own list of flips.
        flips: those that the page lists, beginning with the report's own; default: these alone.
        provenance: what the page was made from.
    """
    listed = report.worst_flips if flips is None else flips
    pictures = [_picture(picture, flip) for flip in report.worst_flips]
    first = listed[: max(FIRST_ROWS, len(pictures))] if report.worst_flips else listed[:FIRST_ROWS]
    pictures += [None] * (len(first) - len(pictures))
    slices = slices_table(report, report.slices[:ROWS], len(report.slices))
    tables = [causes_table(report), slices, classes_table(report.per_class[:ROWS], len(report.per_class))]
    pairs = []
    if report.pairs:
        pairs = [
            pairs_table(report, report.pairs[:ROWS], len(report.pairs)),
            takers_table(report.takers[:ROWS], len(report.takers)),
        ]
    return render_page(
        "page",
        provenance=provenance,
        report=report,
        verdict=wording.verdict(report),
        models=[rates_table(report), models_table(report)],
        tables=[table for table in tables if table is not None],
        pairs=pairs,
        figures=drawings(report),
        rows_shown=list(zip(first, pictures, strict=True)),
        flips=flip_list(report, listed),
        order=order_sentence(listed),
        listed=len(listed),
        filters=FILTERS,
    )


def _picture(read: PictureReader | None, flip: FlippedSample) -> Picture | None:
    pixels = None if read is None else read(flip.id)
    return None if pixels is None else Picture(data_url(pixels), max(pixels.shape[:2]) > SMOOTH)
