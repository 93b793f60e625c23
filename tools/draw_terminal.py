"""Draw docs/evaluate.svg and docs/demo.svg: terminals with the first `mptctl` command of docs/ci.md and of README."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np
from rich._export_format import CONSOLE_SVG_FORMAT
from rich.console import Console
from rich.terminal_theme import SVG_EXPORT_THEME
from rich.text import Text

from mptctl.studies.run_folders import kept_answers
from tools.draw_flips import DEMO

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "ci.md"
LINES = 40


@dataclass(frozen=True)
class Terminal:
    """A picture of a terminal with the first `mptctl` command of a page.

    Attributes:
        page: its first indented `mptctl` line is the command.
        make_files: writes the command's input into a folder.
        columns: width in characters; longer lines are wrapped.
    """

    page: Path
    make_files: Callable[[Path], None]
    columns: int


def snippets(page: str) -> list[str]:
    """The Python code blocks of a Markdown page, in their order."""
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


def commands(page: str) -> list[list[str]]:
    """The indented `mptctl` command lines of a Markdown page, as words without ``mptctl`` and comments."""
    lines = re.findall(r"^    mptctl (.*)$", page, re.MULTILINE)
    return [line.partition("#")[0].split() for line in lines]


def run_first_snippet(folder: Path) -> None:
    """Run the first Python snippet of docs/ci.md, which makes the files of the page."""
    code = snippets(PAGE.read_text(encoding="utf-8"))[0]
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)


def write_demo_predictions(folder: Path) -> None:
    """Write the demo's kept predictions as a folder for each run, so that each goes by the run's name."""
    for name in ("old", "no-treatment", "mpt-kl"):
        kept = kept_answers(DEMO / name)
        names, test = np.array(kept.head.class_names), kept.test
        (folder / name).mkdir()
        np.savez(
            folder / name / "predictions.npz",
            id=test.index,
            label=names[test.label],
            pred=names[test.answers()],
            classes=names[: kept.head.num_known],
        )


TERMINALS = {
    ROOT / "docs" / "evaluate.svg": Terminal(PAGE, run_first_snippet, columns=80),
    ROOT / "docs" / "demo.svg": Terminal(ROOT / "README.md", write_demo_predictions, columns=104),
}


def draw(terminal: Terminal) -> str:
    """Run the command, and return its output on a terminal as SVG that loads no fonts."""
    words = commands(terminal.page.read_text(encoding="utf-8"))[0]
    path = f"{ROOT}{os.pathsep}{ROOT / 'kernels'}"
    colours = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    screen = {"COLUMNS": str(terminal.columns), "LINES": str(LINES)}
    with tempfile.TemporaryDirectory() as folder:
        terminal.make_files(Path(folder))
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
    console = Console(record=True, width=terminal.columns, file=StringIO(), color_system="truecolor")
    console.print(Text.from_ansi(f"$ mptctl {' '.join(words)}"))
    console.print(Text.from_ansi("\n".join(lines)))
    # rich would make the reader's browser load fonts from a server.
    without_fonts = re.sub(r"@font-face \{\{.*?\}\}\n?", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    svg = console.export_svg(
        title="mptctl evaluate", theme=SVG_EXPORT_THEME, code_format=without_fonts, unique_id="evaluate"
    )
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


if __name__ == "__main__":
    for target, terminal in TERMINALS.items():
        target.write_text(draw(terminal), encoding="utf-8")
