"""Make the HTML page of a comparison: its document, with the flipped samples as a gallery."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import NamedTuple

from mptctl.evaluation.flip_report import FlippedSample, FlipReport
from mptctl.report.documents.flip_list import FIRST_ROWS, flip_list
from mptctl.report.documents.flips import flips_document
from mptctl.report.figures.reliability import Panel, reliability_drawings
from mptctl.report.media.document import Drawing
from mptctl.report.media.page import render_document
from mptctl.report.media.pictures import PictureReader, data_url
from mptctl.report.media.provenance import Provenance
from mptctl.report.media.svg import NEW, OLD

# Rows of a table on the page at most; the JSON has all.
ROWS = 200
# Pixels of the longest side above which a browser smooths a picture; smaller ones show their pixels.
SMOOTH = 96


class Picture(NamedTuple):
    """A picture of the list of flips: a data URL, and whether the browser smooths it."""

    url: str
    smooth: bool


def render_html(
    report: FlipReport,
    picture: PictureReader | None = None,
    flips: Sequence[FlippedSample] | None = None,
    provenance: Provenance | None = None,
) -> str:
    """Return the HTML page of a comparison.

    Args:
        report: the comparison.
        picture: reads the pictures of `report.worst_flips`, the only flips shown with pictures; None: no
            pictures.
        flips: the flips that the page lists, which begin with `report.worst_flips`; None: those only.
        provenance: what the page was made from; None where that is not known.
    """
    listed = report.worst_flips if flips is None else flips
    pictures = [_picture(picture, flip) for flip in report.worst_flips]
    # Rows in the page itself; its script makes the others.
    first = listed[: max(FIRST_ROWS, len(pictures))]
    return render_document(
        replace(flips_document(report, rows=ROWS), drawings=lambda: drawings(report)),
        provenance,
        "flips",
        report=report,
        rows_shown=list(zip_longest(first, pictures)),
        flips=flip_list(listed),
    )


def drawings(report: FlipReport) -> list[Drawing]:
    """Draw the reliability diagrams of the models that have logits; nothing where neither has."""
    models = ((report.old, "old model", OLD), (report.new, "new model", NEW))
    panels = [Panel(title, model.reliability, colour) for model, title, colour in models if model.reliability]
    return reliability_drawings(panels)


def _picture(read: PictureReader | None, flip: FlippedSample) -> Picture | None:
    """The picture of a flip; None where there is no reader or no picture."""
    pixels = None if read is None else read(flip.id)
    return None if pixels is None else Picture(data_url(pixels), max(pixels.shape[:2]) > SMOOTH)
