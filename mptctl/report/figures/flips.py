"""Draw the figure of a comparison: reliability of both models."""

from __future__ import annotations

from mptctl.evaluation.flip_report import FlipReport
from mptctl.report.figures.reliability import CAPTION, Panel, draw_reliability
from mptctl.report.media.document import Drawing
from mptctl.report.media.svg import NEW, OLD


def drawings(report: FlipReport) -> list[Drawing]:
    """Draw the reliability diagrams of the models that have logits; nothing where neither has."""
    models = ((report.old, "old model", OLD), (report.new, "new model", NEW))
    panels = [Panel(title, model.reliability, colour) for model, title, colour in models if model.reliability]
    return [Drawing("reliability", CAPTION, draw_reliability(panels))] if panels else []
