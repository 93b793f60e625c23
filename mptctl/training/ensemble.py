"""Plans the members of an ensemble: plain models of all classes, in one folder, with different seeds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from pydantic import Field

from mptctl.errors import UsageError
from mptctl.files import Model
from mptctl.models.checkpoint import load_checkpoint
from mptctl.models.run_folder import RunDir, list_members
from mptctl.recipe import change_recipe
from mptctl.training.assemble import build_meta
from mptctl.training.dry_run import DryRun
from mptctl.training.request import MOST_MEMBERS, RunRequest
from mptctl.training.resume import newest_checkpoint, refuse_differences, refuse_other_run

# Kept: finished before, and left as it is. Resumed: trained further. Trained: from the beginning.
MemberState = Literal["kept", "resumed", "trained"]


@dataclass(frozen=True)
class Member:
    """The plan for a member of an ensemble: the request for its run, and what is done with the run."""

    request: RunRequest
    state: MemberState


class MemberSummary(Model):
    """A member of an ensemble, as ``--json`` prints it."""

    run: str = Field(description="the run folder")
    best: str = Field(description="the checkpoint that --ref takes")
    seed: int = Field(description="of initial weights, order and augmentation")
    state: MemberState = Field(description="kept: it was finished before; resumed: gone on with; trained")
    best_val_error: float | None = Field(
        description="validation error of `best`; null without a validation part, or before it is trained"
    )


class EnsembleSummary(Model):
    """The object that `train-ensemble` prints with ``--json``."""

    run: str = Field(description="the folder of the members, which --ref takes")
    members: list[MemberSummary] = Field(description="in the order of their seeds")


class EnsembleDryRun(EnsembleSummary):
    """The object that `train-ensemble` prints with ``--dry-run --json``."""

    first: DryRun | None = Field(description="the first that would be trained; null where all are there")


def plan_ensemble(request: RunRequest, size: int) -> list[Member]:
    """Plan for each member whether it is kept, resumed or trained; no file is changed.

    Member i has the request's seed + i, and the folder named i.

    Args:
        request: for the first member, with the folder of the whole ensemble.
        size: wanted number of members.

    Raises:
        UsageError: ``size`` is above MOST_MEMBERS; the folder holds a run itself; a member is interrupted and
            the request does not resume, or another process writes it.
        CheckpointError: an existing member was trained by another recipe, or is damaged; it is named.
    """
    if size > MOST_MEMBERS:
        raise UsageError(f"--size {size:,}: an ensemble has at most {MOST_MEMBERS:,} members; train fewer")
    if RunDir(request.folder).holds_run():
        raise UsageError(f"{request.folder}: holds a run, not an ensemble's members; use another --name")
    members = []
    for number in range(size):
        seed = {"runtime.seed": request.recipe.runtime.seed + number}
        folder = request.folder / str(number)
        recipe = change_recipe(request.recipe, seed, str(folder))
        members.append(_plan_member(replace(request, recipe=recipe, folder=folder)))
    return members


def members_beyond(folder: Path, size: int) -> list[str]:
    """Return names of existing members numbered ``size`` or above, which ``--ref FOLDER`` would use too."""
    return [member.path.name for member in list_members(folder) if int(member.path.name) >= size]


def summarize_members(members: list[Member], *, trained: bool) -> list[MemberSummary]:
    """Describe the members as ``--json`` prints them; reads the best error from their checkpoints.

    Args:
        members: of `plan_ensemble`.
        trained: whether all members are trained by now; if not, only kept ones have a best error.
    """
    summaries = []
    for member in members:
        request, best = member.request, RunDir(member.request.folder).best
        is_finished = trained or member.state == "kept"
        summaries.append(
            MemberSummary(
                run=str(request.folder),
                best=str(best),
                seed=request.recipe.runtime.seed,
                state=member.state,
                best_val_error=load_checkpoint(best).meta.best_error if is_finished else None,
            )
        )
    return summaries


def _plan_member(request: RunRequest) -> Member:
    """Decide whether one member is kept, resumed or trained.

    Raises:
        UsageError: the member is interrupted and the request does not resume, or another process writes it.
        CheckpointError: it was trained by another recipe, or is damaged.
    """
    folder, meta = RunDir(request.folder), build_meta(request, {})
    if request.overwrite or not folder.holds_run():
        request = replace(request, resume=False)
    elif folder.is_finished():
        # A kept member does not grow, so a longer recipe is that of another run.
        advice = "train all members as it was, or use another --name"
        refuse_other_run(load_checkpoint(folder.best).meta, meta, folder.best, advice)
        return Member(request, "kept")
    elif request.resume:
        request = request.resume_or_restart()
        if request.resume:
            checkpoint = newest_checkpoint(folder)
            refuse_differences(checkpoint.meta, meta, checkpoint.path)
    folder.refuse_unusable(request.existing)
    return Member(request, "resumed" if request.resume else "trained")
