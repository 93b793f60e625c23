"""The last screen of the quickstart: pictures for a person, none of them in a pipe."""

from __future__ import annotations

import io

import numpy as np
import pytest
from rich.console import Console

from mptctl.report.documents.quickstart import print_quickstart
from mptctl.report.media.pictures import can_draw, draw_half_blocks
from mptctl.studies.quickstart import QuickstartExample, QuickstartResult, QuickstartRow

ROWS = [
    QuickstartRow(
        model=model, negative_flips=flips, n_old=400, nfr=flips / 400, nfr_ci95=(flips / 500, flips / 300),
        rel_nfr=None, er_old_classes=0.05, er_all=0.1,
    )
    for model, flips in (("old", 0), ("no-treatment", 24), ("mpt-kl", 12))
]  # fmt: skip
EXAMPLES = [
    QuickstartExample(id=f"test/{i}", label="B", plain_answer="8", careful_answer="B") for i in range(4)
]
RESULT = QuickstartResult(
    rows=ROWS, meaning="Half as many.", examples=EXAMPLES, runs=[], report="runs/flips.html",
    next_command="mptctl split", seconds=1,
)  # fmt: skip
PICTURES = {f"test/{i}": np.full((16, 16, 3), 60 * i, dtype=np.uint8) for i in range(3)}  # the last is gone


def screen(**keys: object) -> str:
    file = io.StringIO()
    console = Console(file=file, width=80, **keys)  # type: ignore[arg-type]
    print_quickstart(RESULT, PICTURES.get, console)
    return file.getvalue()


def test_two_pixels_make_one_character_the_upper_before_the_lower() -> None:
    picture = np.array([[[1, 2, 3], [4, 5, 6]], [[7, 8, 9], [10, 11, 12]]], dtype=np.uint8)
    text = draw_half_blocks(picture)
    assert text.plain == "▀▀"
    console = Console(file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print(text, end="")
    drawn = console.file.getvalue()  # type: ignore[attr-defined]
    assert drawn == "\x1b[38;2;1;2;3;48;2;7;8;9m▀\x1b[0m\x1b[38;2;4;5;6;48;2;10;11;12m▀\x1b[0m"


def test_a_terminal_shows_figures_words_pictures_page_and_command_in_80_columns() -> None:
    shown = Console(file=io.StringIO(), width=80, force_terminal=True, color_system="truecolor", record=True)
    print_quickstart(RESULT, PICTURES.get, shown)
    lines = shown.export_text().splitlines()
    assert max(map(len, lines)) <= 80
    text = "\n".join(lines)
    assert text.count("▀") == 3 * 16 * 8
    assert [text.count(word) for word in ("plain  8", "mpt-kl B", "old    B")] == [3, 3, 3]
    assert "4.80 to 8.00 %" in text
    order = [
        text.index(part) for part in ("no-treatment", "Half as many.", "▀", "runs/flips.html", "mptctl split")
    ]
    assert order == sorted(order)


@pytest.mark.parametrize("keys", [{}, {"force_terminal": True, "color_system": None}])
def test_no_picture_in_a_pipe_nor_without_colours(keys: dict[str, object]) -> None:
    text = screen(**keys)
    assert "▀" not in text
    assert "Some of what" not in text
    assert "Half as many." in text and "mptctl split" in text


def test_a_terminal_of_ascii_gets_no_picture() -> None:
    ascii_only = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    assert not can_draw(Console(file=ascii_only, force_terminal=True, color_system="truecolor"))
