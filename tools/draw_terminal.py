"""Draw the terminals of README and docs/ci.md: what `mptctl evaluate` prints there on files of predictions."""

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

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "ci.md"
DEMO = ROOT / "results" / "demo" / "0"
COLUMNS, LINES = 80, 40


@dataclass(frozen=True)
class Screen:
    """A terminal with one command and its output.

    Attributes:
        target: file of the picture.
        words: of the command, without ``mptctl``.
        write_files: writes the files that the command reads into a folder.
    """

    target: Path
    words: list[str]
    write_files: Callable[[Path], None]


def snippets(page: str) -> list[str]:
    """The Python code blocks of a Markdown page, in their order."""
    return re.findall(r"```python\n(.*?)```", page, re.DOTALL)


def commands(page: str) -> list[list[str]]:
    """The indented `mptctl` command lines of a Markdown page, as words without ``mptctl`` and comments."""
    lines = re.findall(r"^    mptctl (.*)$", page, re.MULTILINE)
    return [line.partition("#")[0].split() for line in lines]


def write_demo_predictions(folder: Path) -> None:
    """Write files of predictions with what is kept of the demo's old model, plain update and MPT update."""
    for file, run in (("old", "old"), ("plain", "no-treatment"), ("mpt", "mpt-kl")):
        kept = kept_answers(DEMO / run)
        names = np.array(kept.head.class_names)
        known = names[: kept.head.num_old] if run == "old" else names
        labels, predictions = names[kept.test.label], names[kept.test.answers()]
        np.savez(folder / f"{file}.npz", id=kept.test.index, label=labels, pred=predictions, classes=known)


def run_first_snippet(folder: Path) -> None:
    """Run the first Python snippet of docs/ci.md, which writes the files of its first command."""
    subprocess.run([sys.executable, "-c", snippets(PAGE.read_text("utf-8"))[0]], cwd=folder, check=True)


SCREENS = {
    "ci": Screen(ROOT / "docs" / "evaluate.svg", commands(PAGE.read_text("utf-8"))[0], run_first_snippet),
    "README": Screen(
        ROOT / "docs" / "demo.svg",
        ["evaluate", "old.npz", "plain.npz", "mpt.npz", "--max-nfr", "3"],
        write_demo_predictions,
    ),
}


def draw(screen: Screen) -> str:
    """Run the command of a screen, and return its output on a terminal as SVG that loads no fonts."""
    path = f"{ROOT}{os.pathsep}{ROOT / 'kernels'}"
    colours = {"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLORTERM": "truecolor"}
    size = {"COLUMNS": str(COLUMNS), "LINES": str(LINES)}
    with tempfile.TemporaryDirectory() as folder:
        screen.write_files(Path(folder))
        done = subprocess.run(
            [sys.executable, "-m", "mptctl", *screen.words],
            cwd=folder,
            env=os.environ | colours | size | {"PYTHONPATH": path},
            capture_output=True,
            text=True,
            check=False,
        )
    # On a terminal nothing of standard error stays: bars are erased, and the verdict is said once, on standard output.
    lines = done.stdout.rstrip("\n").splitlines()
    console = Console(record=True, width=COLUMNS, file=StringIO(), color_system="truecolor")
    console.print(Text.from_ansi(f"$ mptctl {' '.join(screen.words)}"))
    console.print(Text.from_ansi("\n".join(lines)))
    # rich would make the reader's browser load fonts from a server.
    without_fonts = re.sub(r"@font-face \{\{.*?\}\}\n?", "", CONSOLE_SVG_FORMAT, flags=re.DOTALL)
    svg = console.export_svg(
        title="mptctl evaluate", theme=SVG_EXPORT_THEME, code_format=without_fonts, unique_id="evaluate"
    )
    return "\n".join(line.rstrip() for line in svg.splitlines()) + "\n"


if __name__ == "__main__":
    for screen in SCREENS.values():
        screen.target.write_text(draw(screen), encoding="utf-8")
