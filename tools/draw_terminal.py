"""Draw docs/evaluate.svg: a terminal with the first command of docs/ci.md, run on the files that the page makes."""

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
    """The Python code blocks of a Markdown page, in their order."""
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


def commands(page: str) -> list[list[str]]:
    """The indented `mptctl` command lines of a Markdown page, as words without ``mptctl`` and comments."""
    lines = re.findall(r"^    mptctl (.*)$", page, re.MULTILINE)
    return [line.partition("#")[0].split() for line in lines]


def draw() -> str:
    """Run the command, and return its output on a terminal as SVG that loads no fonts."""
    page = PAGE.read_text(encoding="utf-8")
    words = commands(page)[0]
    path = f"{ROOT}{os.pathsep}{ROOT / 'kernels'}"
    colours = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    screen = {"COLUMNS": str(COLUMNS), "LINES": str(LINES)}
    with tempfile.TemporaryDirectory() as folder:
        # The page's own first snippet makes the files.
        subprocess.run([sys.executable, "-c", snippets(page)[0]], cwd=folder, check=True)
        done = subprocess.run(
            [sys.executable, "-m", "mptctl", *words],
            cwd=folder,
            env=os.environ | colours | screen | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
    # On a terminal nothing of standard error stays: bars are erased, and the verdict is said once, on standard output.
    lines = done.stdout.rstrip("\n").splitlines()
    console = Console(record=True, width=COLUMNS, file=StringIO(), color_system="truecolor")
    console.print(Text.from_ansi(f"$ mptctl {' '.join(words)}"))
    console.print(Text.from_ansi("\n".join(lines)))
    # rich would make the reader's browser load fonts from a server.
    without_fonts = re.sub(r"@font-face \{\{.*?\}\}\n?", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    svg = console.export_svg(
        title="mptctl evaluate", theme=SVG_EXPORT_THEME, code_format=without_fonts, unique_id="evaluate"
    )
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


if __name__ == "__main__":
    TARGET.write_text(draw(), encoding="utf-8")
