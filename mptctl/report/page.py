"""What the HTML pages share: their templates, one style and head in `base.html.j2`, figures inside the page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from mptctl import __version__
from mptctl.evaluation.slices import slice_name
from mptctl.report.svg import inline_svg
from mptctl.report.wording import format_count, format_interval, percent, q_value


def render_page(template: str, **parts: Any) -> str:
    """One page that needs nothing but itself.

    Args:
        template: its name, without ``.html.j2``; it extends `base.html.j2`.
        parts: what the template shows; text in them stays text.
    """
    environment = Environment(
        loader=PackageLoader("mptctl.report", "templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    filters: tuple[Callable[..., str], ...] = (percent, format_interval, format_count, slice_name, q_value)
    environment.filters |= {each.__name__: each for each in filters}
    return environment.get_template(f"{template}.html.j2").render(version=__version__, **parts)


def inline_figure(name: str, caption: str, figure: Figure) -> tuple[str, str, Markup]:
    """A figure as `figures.html.j2` takes it: its id, its caption, and an SVG whose labels are escaped."""
    return name, caption, Markup(inline_svg(name, figure))  # noqa: S704  # drawn here, its texts escaped
