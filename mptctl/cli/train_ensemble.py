"""`mptctl train-ensemble`: train several references that differ in their seed alone, and teach as one."""

from __future__ import annotations

from typing import Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.flag_records import with_flags
from mptctl.cli.json_models import prints
from mptctl.cli.training_flags import IndependentFlags


@prints(
    {
        "--json": "mptctl.training.ensemble:EnsembleSummary",
        "--dry-run --json": "mptctl.training.ensemble:EnsembleDryRun",
    }
)
@with_flags
def train_ensemble(
    # Eight, as Zhao et al. (TPAMI 2024) have it.
    size: Annotated[int, typer.Option("--size", metavar="N", min=1, help="How many members.")] = 8,
    log: opt.Log = None,
    *,
    flags: IndependentFlags,
) -> None:
    """Train several references that differ in their seed.

    Writes the run folders `ensemble/0`, `ensemble/1` and so on; `--ref ensemble` names all of them.
    Finished members are kept: the same command with a larger --size adds members, and --resume continues
    interrupted ones.

    Examples:

        mptctl train-ensemble --size 4

        mptctl train-baseline elodi --ref ensemble --cache-teachers
    """
    from mptctl.cli.runners.ensemble import train_members

    train_members(flags, size, log)
