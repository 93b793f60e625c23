"""`mptctl train-ensemble`: several references that differ in their seed alone, and teach as one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from mptctl.cli import options as opt
from mptctl.cli.json_models import prints
from mptctl.cli.training_flags import TrainingFlags, training_flags
from mptctl.cli.training_verbs import Inputs, describe, read_inputs

if TYPE_CHECKING:
    from mptctl.names import TrackerName
    from mptctl.training.ensemble import Member
    from mptctl.training.request import RunRequest

ENSEMBLE = "ensemble"


@prints(
    {
        "--json": "mptctl.training.ensemble:EnsembleSummary",
        "--dry-run --json": "mptctl.training.ensemble:EnsembleDryRun",
    }
)
@training_flags(seed=opt.IndependentSeed)
def train_ensemble(
    flags: TrainingFlags,
    # Eight, as Zhao et al. (TPAMI 2024) have it.
    size: Annotated[int, typer.Option("--size", metavar="N", min=1, help="How many members.")] = 8,
    log: opt.Log = None,
) -> None:
    """Train several references that differ in their seed.

    Writes the run folders `ensemble/0`, `ensemble/1` and so on; `--ref ensemble` names all of them.
    Finished members are kept: the same command with a larger --size adds members, and --resume continues
    interrupted ones.

    Examples:

        mptctl train-ensemble --size 4

        mptctl train-baseline elodi --ref ensemble --cache-teachers
    """
    from mptctl.report.trackers.tracker import require_trackers

    trackers = require_trackers(log)
    inputs = read_inputs(flags, ENSEMBLE, member="0")
    from mptctl.models.ownership import run_folder
    from mptctl.training.request import ENSEMBLE_SEED_OFFSET, RunRequest, refuse_too_short

    recipe = inputs.with_keys({"method.name": "no-treatment"}, ENSEMBLE_SEED_OFFSET)
    folder = run_folder(flags.run_root, ENSEMBLE if flags.name is None else flags.name)
    if flags.print_recipe:
        typer.echo(recipe.to_yaml(), nl=False)
        return
    refuse_too_short(recipe, inputs.split, len(inputs.split.classes.names))
    request = RunRequest(
        recipe=recipe,
        split=inputs.split,
        folder=folder,
        resume=flags.resume,
        overwrite=flags.overwrite,
    )
    # Here, because it takes seconds to import.
    from mptctl.training.ensemble import plan_ensemble

    members = plan_ensemble(request, size)
    if flags.dry_run:
        _say_what_would_be_done(inputs, request, members)
    else:
        _train(request, members, trackers, flags.as_json)


def _train(request: RunRequest, members: list[Member], trackers: list[TrackerName], as_json: bool) -> None:
    from mptctl.errors import some
    from mptctl.machine.facts import rank
    from mptctl.report.trackers.logged_run import observed
    from mptctl.training.ensemble import EnsembleSummary, members_beyond, summarize
    from mptctl.training.train import train

    for member in members:
        if member.state != "kept":
            train(member.request, observed(member.request, trackers))
        elif rank() == 0:
            typer.echo(f"{member.request.folder}: finished before, left as it is", err=True)
    if rank() != 0:
        return
    if beyond := members_beyond(request.folder, len(members)):
        is_there = "is there too, and is" if len(beyond) == 1 else "are there too, and are"
        typer.echo(
            f"{request.folder}: {some(beyond)} {is_there} among the members that --ref names", err=True
        )
    summary = EnsembleSummary(run=str(request.folder), members=summarize(members, trained=True))
    if as_json:
        typer.echo(summary.model_dump_json())
    else:
        typer.echo("\n".join(member.best for member in summary.members))


def _say_what_would_be_done(inputs: Inputs, request: RunRequest, members: list[Member]) -> None:
    from mptctl.training.dry_run import dry_run
    from mptctl.training.ensemble import EnsembleDryRun, summarize

    first = next(
        (inputs.named(dry_run(member.request)) for member in members if member.state != "kept"), None
    )
    plan = EnsembleDryRun(run=str(request.folder), members=summarize(members, trained=False), first=first)
    if inputs.flags.as_json:
        typer.echo(plan.model_dump_json())
        return
    by_state: dict[str, list[str]] = {}
    for member in members:
        by_state.setdefault(member.state, []).append(member.request.folder.name)
    states = "; ".join(f"{', '.join(names)} {state}" for state, names in by_state.items())
    typer.echo(f"{request.folder}: {states}")
    if first is not None:
        typer.echo("\n".join(["the first that is not there:", *describe(first)]))
    typer.echo("nothing was written")
