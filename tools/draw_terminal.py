"""Draw docs/evaluate.svg: what a terminal shows of the command of docs/ci.md, run on the files that the page makes."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from io import StringIO
from pathlib import Path

from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

ROOT = Path(__file__).parent.parent
PAGE, TARGET = ROOT / "docs" / "ci.md", ROOT / "docs" / "evaluate.svg"
COLUMNS, LINES = 80, 40


def snippets(page: str) -> list[str]:
    """The blocks of Python of a page, in their order."""
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


def commands(page: str) -> list[list[str]]:
    """The command lines of a page, as words without the program's name; what follows a # is a remark."""
    lines = re.findall(r"^    mptctl (.*)$", page, re.MULTILINE)
    return [line.partition("#")[0].split() for line in lines]


def draw() -> str:
    """The picture as SVG, which needs no font but the reader's own."""
    page = PAGE.read_text(encoding="utf-8")
    words = commands(page)[0]
    path = f"{ROOT}{os.pathsep}{ROOT / 'kernels'}"
    colours = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    screen = {"COLUMNS": str(COLUMNS), "LINES": str(LINES)}
    with tempfile.TemporaryDirectory() as folder:
        # The page's own first snippet makes the files.
        subprocess.run([sys.executable, "-c", snippets(page)[0]], cwd=folder, check=True)
        shown = subprocess.run(
            [sys.executable, "-m", "mptctl", *words],
            cwd=folder,
            env=os.environ | colours | screen | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
    # Of standard error the last line alone, which stays on a screen: bars before it are wiped out.
    said = [*shown.stdout.rstrip("\n").splitlines(), *shown.stderr.splitlines()[-1:]]
    console = Console(record=True, width=COLUMNS, file=StringIO(), color_system="truecolor")
    console.print(Text.from_ansi(f"$ mptctl {' '.join(words)}"))
    console.print(Text.from_ansi("\n".join(said)))
    # Without the fonts, which rich would have the reader's browser fetch from a server.
    form = re.sub(r"@font-face \{\{.*?\}\}\n?", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    drawn = console.export_svg(
        title="mptctl evaluate", theme=SVG_EXPORT_THEME, code_format=form, unique_id="evaluate"
    )
    return "\n".join(line.rstrip() for line in drawn.splitlines()) + "\n"


if __name__ == "__main__":
    TARGET.write_text(draw(), encoding="utf-8")
