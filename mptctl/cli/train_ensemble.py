"""`mptctl train-ensemble`: train the members that are missing, or print what would be done."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from mptctl.cli.dry_run_lines import describe_dry_run
from mptctl.cli.show import show
from mptctl.cli.train import Inputs, read_inputs
from mptctl.errors import some
from mptctl.machine.facts import rank
from mptctl.models.ownership import run_folder
from mptctl.names import TrackerName
from mptctl.report.trackers.tracker import require_trackers
from mptctl.training.request import ENSEMBLE_SEED_OFFSET, RunRequest
from mptctl.training.train_request import EnsembleRequest

if TYPE_CHECKING:
    from mptctl.training.ensemble import Member

ENSEMBLE = "ensemble"


def train_members(asked: EnsembleRequest) -> None:
    """Train references until the ensemble has its size; finished ones are kept.

    With --print-recipe or --dry-run, print the recipe or the plan instead.

    Raises:
        MptctlError: as `read_inputs`, `plan_ensemble` and a run.
    """
    trackers = require_trackers(asked.log)
    # With --resume, the recipe is that of the first member.
    inputs = read_inputs(asked, ENSEMBLE, member="0")
    recipe = inputs.with_keys({"method.name": "no-treatment"}, seed_offset=ENSEMBLE_SEED_OFFSET)
    folder = run_folder(asked.run_root, asked.name or ENSEMBLE)
    if asked.print_recipe:
        typer.echo(recipe.to_yaml(), nl=False)
        return
    request = RunRequest(
        recipe=recipe,
        split=inputs.split,
        folder=folder,
        resume=asked.resume,
        overwrite=asked.overwrite,
    )
    # Imported after the checks, because it takes seconds.
    from mptctl.training.ensemble import plan_ensemble

    members = plan_ensemble(request, asked.size)
    if asked.dry_run:
        _print_dry_run(inputs, request, members)
    else:
        _train_members(request, members, trackers, asked.as_json)


def _train_members(
    request: RunRequest, members: list[Member], trackers: list[TrackerName], as_json: bool
) -> None:
    """Train the members that are not kept; the process of rank 0 prints notes and the checkpoints."""
    from mptctl.report.trackers.logged_run import logging_observer
    from mptctl.training.ensemble import EnsembleSummary, members_beyond, summarize_members
    from mptctl.training.train import train

    for member in members:
        if member.state != "kept":
            train(member.request, logging_observer(member.request, trackers))
        elif rank() == 0:
            typer.echo(f"{member.request.folder}: finished before, left as it is", err=True)
    if rank() != 0:
        return
    further = members_beyond(request.folder, len(members))
    if further:
        are_there = "is there too, and is" if len(further) == 1 else "are there too, and are"
        typer.echo(
            f"{request.folder}: {some(further)} {are_there} among the members that --ref names", err=True
        )
    summary = EnsembleSummary(run=str(request.folder), members=summarize_members(members, trained=True))
    show(summary, lambda summary: "\n".join(member.best for member in summary.members), as_json=as_json)


def _print_dry_run(inputs: Inputs, request: RunRequest, members: list[Member]) -> None:
    """Print the state of each member, and the plan of the first that would be trained."""
    from mptctl.training.dry_run import dry_run
    from mptctl.training.ensemble import EnsembleDryRun, summarize_members

    to_train = [member for member in members if member.state != "kept"]
    first = dry_run(to_train[0].request, inputs.recipe_name) if to_train else None
    plan = EnsembleDryRun(
        run=str(request.folder), members=summarize_members(members, trained=False), first=first
    )
    by_state: dict[str, list[str]] = {}
    for member in members:
        by_state.setdefault(member.state, []).append(member.request.folder.name)
    states = "; ".join(f"{', '.join(names)} {state}" for state, names in by_state.items())
    lines = [f"{request.folder}: {states}"]
    if first is not None:
        lines += ["the first that is not there:", *describe_dry_run(first)]
    lines.append("nothing was written")
    show(plan, lambda _: "\n".join(lines), as_json=inputs.asked.as_json)
