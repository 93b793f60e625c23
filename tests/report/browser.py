"""The system's Chromium, driven by Playwright, and axe-core: where they are, and why a test has to do without."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
NAMES = ("chromium", "chromium-browser", "google-chrome")
WIDTHS, SCHEMES = (400, 800, 1400), ("light", "dark")


def chromium() -> str:
    """The browser: MPTCTL_CHROMIUM, or what the system has."""
    named = os.environ.get("MPTCTL_CHROMIUM")
    found = named or next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None or not Path(found).is_file():
        pytest.skip("no Chromium: install it, or name it in MPTCTL_CHROMIUM")
    return found


def axe() -> str:
    """The text of axe-core: MPTCTL_AXE, or what `make test-browser` fetched."""
    path = Path(os.environ.get("MPTCTL_AXE") or ROOT / "node_modules" / "axe-core" / "axe.min.js")
    if not path.is_file():
        pytest.skip("no axe-core: run make test-browser, or name axe.min.js in MPTCTL_AXE")
    return path.read_text(encoding="utf-8")


@contextmanager
def browser() -> Iterator[Any]:
    """A headless browser; skips where there is none."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="no playwright: pip install 'mptctl[browser]'"
    )
    path = chromium()
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield opened
        finally:
            opened.close()


@contextmanager
def opened(
    started: Any, path: Path, fragment: str = "", width: int = 800, scheme: str = "light", script: bool = True
) -> Iterator[Any]:
    """A page that was opened, on which no script failed and of which nothing was refused by its policy."""
    context = started.new_context(
        viewport={"width": width, "height": 900}, color_scheme=scheme, java_script_enabled=script
    )
    page, said = context.new_page(), list[str]()
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    try:
        page.goto(path.as_uri() + (f"#{fragment}" if fragment else ""))
        yield page
        assert said == []
    finally:
        context.close()
