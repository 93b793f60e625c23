"""Flags of `mptctl tune`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer

from mptctl.cli import options as opt
from mptctl.names import Search

SPACE, CHOICE = "What is searched", "What is chosen"


def _axis_option(flag: str, text: str) -> Any:
    """An option that takes the values or the range of one recipe key; ``text`` says which."""
    return typer.Option(
        flag,
        metavar="VALUES",
        help=f"{text}: values as 0,1,4, or a range as 0:8 (random, optuna).",
        rich_help_panel=SPACE,
    )


@dataclass(frozen=True)
class AxisFlags:
    """The values that are searched."""

    k: Annotated[
        str | None,
        typer.Option(
            "--k",
            metavar="VALUES",
            help="Bias k, added to the new classes' logits in training: values, or a range as 0:8 (random, "
            "optuna). (default: 0,0.5,1,1.5,2,4,8, or 0:8)",
            rich_help_panel=SPACE,
        ),
    ] = None
    distance: Annotated[
        str | None,
        typer.Option(
            "--distance",
            metavar="VALUES",
            help="Distance to the teachers: kl (KL divergence), lm (logit matching), or kl,lm. "
            "(default: the recipe's, or kl)",
            rich_help_panel=SPACE,
        ),
    ] = None
    lam: Annotated[str | None, _axis_option("--lam", "Weight of each distillation")] = None
    alpha: Annotated[str | None, _axis_option("--alpha", "Focal weight of every sample")] = None
    beta: Annotated[str | None, _axis_option("--beta", "Focal weight added where the teacher is right")] = (
        None
    )
    tau: Annotated[str | None, _axis_option("--tau", "Temperature of the KL distance")] = None
    lr: Annotated[str | None, _axis_option("--lr", "Learning rate")] = None


@dataclass(frozen=True, kw_only=True)
class TuneFlags:
    """Flags that `tune` has beside those of every training."""

    axes: AxisFlags
    search: Annotated[
        Search, typer.Option("--search", help="How values are combined.", rich_help_panel=SPACE)
    ] = "grid"
    trials: Annotated[
        int | None,
        typer.Option(
            "--trials",
            metavar="N",
            min=1,
            help="Trials of a random or optuna search. (default: 8)",
            rich_help_panel=SPACE,
        ),
    ] = None
    asha: Annotated[
        bool,
        typer.Option(
            "--asha", help="Stop poor trials early, by their validation NFR.", rich_help_panel=SPACE
        ),
    ] = False
    max_er_increase: Annotated[
        float | None,
        typer.Option(
            "--max-er-increase",
            metavar="POINTS",
            min=-100.0,
            max=100.0,
            help="Largest increase of validation error above the reference's, in points. (default: 0.5)",
            rich_help_panel=CHOICE,
        ),
    ] = None
    max_nfr: Annotated[
        float | None,
        opt.max_nfr(
            "Largest NFR, in place of --max-er-increase: of the trials shown to keep it, the lowest error.",
            CHOICE,
        ),
    ] = None
    confidence: Annotated[float | None, opt.confidence(CHOICE)] = None
    ray_address: opt.RayAddress = None
    gpus_per_trial: Annotated[
        float | None,
        typer.Option(
            "--gpus-per-trial",
            metavar="N",
            min=0.0,
            help="May be a fraction, which shares a GPU. (default: 1 on a GPU, else 0)",
            rich_help_panel=opt.WHERE,
        ),
    ] = None
    cpus_per_trial: Annotated[
        int,
        typer.Option(
            "--cpus-per-trial", metavar="N", min=1, help="Threads of a trial.", rich_help_panel=opt.WHERE
        ),
    ] = 1
    max_concurrent: Annotated[
        int | None,
        typer.Option(
            "--max-concurrent",
            metavar="N",
            min=1,
            help="Most trials at once. (default: as many as fit)",
            rich_help_panel=opt.WHERE,
        ),
    ] = None
    cache_teachers: Annotated[
        bool,
        typer.Option(
            "--cache-teachers/--no-cache-teachers",
            help="Compute teacher logits once and share them between trials.",
            rich_help_panel=opt.WHERE,
        ),
    ] = True
    old: opt.Old = "old"
    ref: opt.Refs = None
