"""How passes over pictures are shown, on a terminal and where there is none."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from mptctl.report.media import progress_bars as progress_bars


def console(terminal: bool) -> Console:
    return Console(file=io.StringIO(), force_terminal=terminal, width=80)


def text_of(shown: Console) -> str:
    assert isinstance(shown.file, io.StringIO)
    return shown.file.getvalue()


def test_a_terminal_has_a_bar_for_each_pass() -> None:
    shown = console(terminal=True)
    with progress_bars.progress_bars(shown) as progress:
        progress("decoding pictures", 300, 300)
        progress("test pictures", 10, 300)
    text = text_of(shown)
    assert "decoding pictures" in text
    assert "300/300" in text
    assert "10/300" in text


def test_a_log_has_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr("time.monotonic", lambda: now)
    shown = console(terminal=False)
    with progress_bars.progress_bars(shown) as progress:
        progress("test pictures", 0, 1500)
        for done in range(1, 1500):
            now += 0.1
            progress("test pictures", done, 1500)
    lines = text_of(shown).splitlines()
    assert len(lines) == 4  # 150 seconds, the first half minute of which says nothing
    assert lines[-1].startswith("test pictures: 1,")
    assert lines[-1].endswith(" of 1,500")


def test_a_pass_of_a_few_seconds_says_nothing_in_a_log() -> None:
    shown = console(terminal=False)
    with progress_bars.progress_bars(shown) as progress:
        for done in range(100):
            progress("checking files", done, 100)
    assert text_of(shown) == ""
