"""Flags of the release gate."""

from __future__ import annotations

from typing import Annotated

import typer

PANEL = "Release gate"


def percent(flag: str, text: str, low: float = 0.0, high: float | None = 100.0) -> typer.models.OptionInfo:
    """A limit in percent or points."""
    option: typer.models.OptionInfo = typer.Option(
        flag, metavar="PCT", min=low, max=high, help=text, rich_help_panel=PANEL
    )
    return option


MaxNfr = Annotated[float | None, percent("--max-nfr", "Largest negative flip rate.")]
MaxLost = Annotated[
    float | None, percent("--max-lost", "Largest part of OLD's right answers that NEW gets wrong.")
]
MaxRelNfr = Annotated[float | None, percent("--max-rel-nfr", "Largest Rel-NFR.", high=None)]
MaxErIncrease = Annotated[
    float | None,
    percent("--max-er-increase", "Largest increase of error on old classes, in points.", -100.0),
]
Confidence = Annotated[
    float | None,
    typer.Option(
        "--confidence",
        metavar="LEVEL",
        help="The upper end of the interval at this level, 0.5 to below 1, must pass; default: the value.",
        rich_help_panel=PANEL,
    ),
]
AllowIdentical = Annotated[
    bool,
    typer.Option(
        "--allow-identical",
        help="Judge one and the same model too, which else fails every limit.",
        rich_help_panel=PANEL,
    ),
]
AllowUnfinished = Annotated[
    bool,
    typer.Option(
        "--allow-unfinished",
        help="Judge models whose run was not finished too, which else fail every limit.",
        rich_help_panel=PANEL,
    ),
]
NfrMargin = Annotated[
    float | None, percent("--nfr-margin", "Say whether NFR is below this: yes, no, undecided.")
]
FormerMargin = Annotated[
    float | None,
    typer.Option("--margin", min=0, max=100, hidden=True, help="The former name of --nfr-margin."),
]
