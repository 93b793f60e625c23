"""Texts as a terminal shows them, kept under layouts/ at 40, 80 and 120 columns, and what holds of each of them."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from pathlib import Path

from rich.console import Console

KEPT = Path(__file__).parent / "layouts"
WIDTHS = (40, 80, 120)


def check_layout(name: str, show: Callable[[Console], None]) -> dict[int, list[str]]:
    """Compare what is shown with what is kept; MPTCTL_WRITE_LAYOUTS=1 keeps it, to be looked at.

    Args:
        name: of the files.
        show: prints to a console.

    Returns:
        The lines at each width.
    """
    shown = {width: _lines(show, width) for width in (*WIDTHS, 1000)}
    whole = {word for line in shown.pop(1000) for word in line.split()}
    for width, lines in shown.items():
        kept = KEPT / f"{name}-{width}.txt"
        if os.environ.get("MPTCTL_WRITE_LAYOUTS"):
            kept.write_text("\n".join(lines) + "\n", encoding="utf-8")
        assert max(len(line) for line in lines) <= width, f"{name} at {width}"
        assert "…" not in "".join(lines)
        # Lines that are drawn below headings are as long as their columns.
        broken = {word for line in lines for word in line.split() if set(word) != {"─"}} - whole
        assert not broken, f"{name} at {width} breaks {broken}"
        assert lines == kept.read_text(encoding="utf-8").splitlines(), f"{name} at {width}"
    return shown


def _lines(show: Callable[[Console], None], width: int) -> list[str]:
    console = Console(
        width=width, height=24, file=io.StringIO(), force_terminal=True, color_system=None, legacy_windows=False
    )  # fmt: skip
    show(console)
    text: str = console.file.getvalue()  # type: ignore[attr-defined]
    return [line.rstrip() for line in text.splitlines()]
