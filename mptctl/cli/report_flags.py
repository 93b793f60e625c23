"""Flags of what `evaluate` writes besides its table."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from mptctl.names import TrackerName

PANEL = "More output"

Report = Annotated[
    Path | None,
    typer.Option("--report", metavar="FILE.html", help="Write one HTML page."),
]
Figures = Annotated[
    Path | None,
    typer.Option("--figures", metavar="DIR", help="Write the figures as PNG and SVG.", rich_help_panel=PANEL),
]
Markdown = Annotated[
    str | None,
    typer.Option(
        "--markdown",
        metavar="FILE",
        help="Write Markdown for a pull request; - prints it instead of the table.",
    ),
]
Junit = Annotated[
    Path | None,
    typer.Option(
        "--junit",
        metavar="FILE.xml",
        help="Write the gate as JUnit XML, one test a limit.",
        rich_help_panel=PANEL,
    ),
]
Github = Annotated[
    bool,
    typer.Option(
        "--github",
        help="Annotate a GitHub workflow: the verdict, each limit that did not pass, and notes, on standard error.",
        rich_help_panel=PANEL,
    ),
]
AppendHistory = Annotated[
    Path | None,
    typer.Option(
        "--append-history",
        metavar="FILE.jsonl",
        help="Add this comparison to a file, one line a release; `mptctl history` shows it.",
        rich_help_panel=PANEL,
    ),
]
SavePredictions = Annotated[
    Path | None,
    typer.Option(
        "--save-predictions",
        metavar="DIR",
        help="Write both models' predictions as old.npz and new.npz, which evaluate reads.",
        rich_help_panel=PANEL,
    ),
]
Gallery = Annotated[
    int,
    typer.Option("--gallery", metavar="N", min=0, help="Flipped pictures to show.", rich_help_panel=PANEL),
]
DataRoot = Annotated[
    Path | None,
    typer.Option(
        "--data-root",
        metavar="DIR",
        help="Folder of the pictures, if the ids of predictions files are paths below it.",
        rich_help_panel=PANEL,
    ),
]
Log = Annotated[
    list[TrackerName] | None,
    typer.Option(
        "--log",
        metavar="TRACKER",
        help="Log rates, report and flips to mlflow, wandb or tensorboard. Repeatable.",
        rich_help_panel=PANEL,
    ),
]
