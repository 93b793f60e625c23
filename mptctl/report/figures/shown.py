"""A figure that a notebook displays."""

from __future__ import annotations

import io

from matplotlib.figure import Figure


class ShownFigure(Figure):
    """A figure that a notebook displays also where pyplot was not imported."""

    def _repr_png_(self) -> bytes:
        """The figure as a PNG, for Jupyter."""
        png = io.BytesIO()
        self.savefig(png, format="png", bbox_inches="tight")
        return png.getvalue()
