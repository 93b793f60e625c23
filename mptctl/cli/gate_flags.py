"""Flags of the release gate."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

PANEL = "More limits"


def percent(
    flag: str, text: str, low: float = 0.0, high: float | None = 100.0, panel: str | None = PANEL
) -> typer.models.OptionInfo:
    """A limit in percent or points."""
    option: typer.models.OptionInfo = typer.Option(
        flag, metavar="PCT", min=low, max=high, help=text, rich_help_panel=panel
    )
    return option


GateFile = Annotated[
    Path | None,
    typer.Option(
        "--gate",
        metavar="FILE",
        help="Limits, slices, samples that must not flip, and waivers, as YAML; `mptctl gate init` writes one.",
    ),
]
MaxNfr = Annotated[float | None, percent("--max-nfr", "Largest negative flip rate.", panel=None)]
MaxLost = Annotated[
    float | None,
    percent("--max-lost", "Largest part of OLD's right predictions that NEW gets wrong.", panel=None),
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
        help="Decide by the two-sided interval at this level, 0.5 to below 1: pass, fail or undecided; default: by "
        "the value.",
    ),
]
Undecided = Annotated[
    Literal["fail", "pass"],
    typer.Option(
        "--undecided",
        help="Verdict where the interval contains the limit; fail beside --gate.",
        rich_help_panel=PANEL,
    ),
]
AllowIdentical = Annotated[
    bool,
    typer.Option(
        "--allow-identical",
        help="Do not fail when OLD and NEW are the same model.",
        rich_help_panel=PANEL,
    ),
]
AllowUnfinished = Annotated[
    bool,
    typer.Option(
        "--allow-unfinished",
        help="Do not fail when a model comes from an unfinished run.",
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
