"""Figures that a program is given, and that a notebook shows."""

from __future__ import annotations

import io

from matplotlib.figure import Figure


class ShownFigure(Figure):
    """A figure that shows itself in a notebook where nobody imported pyplot."""

    def _repr_png_(self) -> bytes:
        png = io.BytesIO()
        self.savefig(png, format="png", bbox_inches="tight")
        return png.getvalue()
