"""Flags of the release gate."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Literal

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
# The flag of each limit, by its field of `Limits`.
LIMIT_FLAGS = {
    "max_nfr": MaxNfr,
    "max_lost": MaxLost,
    "max_rel_nfr": MaxRelNfr,
    "max_er_increase": MaxErIncrease,
}
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


def limit_flags(command: Callable[..., None]) -> Callable[..., None]:
    """Gives a command, which takes `limits`, a flag for each of them in its place.

    Args:
        command: takes the limits that were given, as fractions by field of `Limits`.
    """

    @wraps(command)
    def with_flags(**given: Any) -> None:
        limits = {key: given.pop(key) for key in LIMIT_FLAGS}
        fractions = {key: value / 100 for key, value in limits.items() if value is not None}
        command(**given, limits=fractions)

    own = signature(command, eval_str=True)
    flags = [
        Parameter(key, Parameter.KEYWORD_ONLY, default=None, annotation=flag)
        for key, flag in LIMIT_FLAGS.items()
    ]
    parameters: list[Parameter] = []
    for parameter in own.parameters.values():
        parameters += (
            flags if parameter.name == "limits" else [parameter.replace(kind=Parameter.KEYWORD_ONLY)]
        )
    with_flags.__dict__["__signature__"] = own.replace(parameters=parameters)
    with_flags.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_flags
