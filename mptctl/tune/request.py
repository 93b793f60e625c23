"""The request for a search, and its refusal where the search cannot be done."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from mptctl.data.split import Split
from mptctl.errors import UsageError
from mptctl.evaluation.bias.choice import Budget
from mptctl.models.ownership import Existing, existing_by_flags, refuse_own_inputs
from mptctl.recipe import Recipe
from mptctl.tune.space import (
    Axis,
    Search,
    TrialSettings,
    complete_settings,
    grid,
    random_points,
    recipe_of,
    series_key,
)


@dataclass(frozen=True)
class TuneRequest:
    """A search that somebody asked for.

    Attributes:
        recipe: the common recipe; its method is mpt-kl or mpt-lm.
        split: the data.
        folder: where the search is written.
        old, refs: checkpoints of the teachers.
        axes: what is searched.
        search: grid, random or optuna.
        trials: how many, for random and optuna.
        asha: give trials up early by their validation NFR.
        budget: what the choice has to keep to: an error that is at most so much above the reference's, or an
            NFR.
        ray_address: of a Ray cluster that shares this machine's files; None for this machine alone.
        cpus_per_trial, gpus_per_trial: what a trial takes; part of a GPU may be shared.
        max_concurrent: most processes at once; None: as many as fit.
        lockstep: trials that a process trains step by step in turn.
        resume, overwrite: what to do with a search that is in the folder.
        data_root: folder of the pictures now; None: where they were when the split was made.
    """

    recipe: Recipe
    split: Split
    folder: Path
    old: Path
    refs: tuple[Path, ...]
    axes: tuple[Axis, ...]
    search: Search = "grid"
    trials: int = 8
    asha: bool = False
    budget: Budget = field(default_factory=lambda: Budget(max_er_increase=0.005))
    ray_address: str | None = None
    cpus_per_trial: int = 1
    gpus_per_trial: float = 0.0
    max_concurrent: int | None = None
    lockstep: int = 1
    resume: bool = False
    overwrite: bool = False
    data_root: Path | None = None

    @property
    def existing(self) -> Existing:
        """The fate of a search that the folder holds already."""
        return existing_by_flags(resume=self.resume, overwrite=self.overwrite)

    def points(self) -> list[TrialSettings] | None:
        """Settings of every trial; None where they follow from how the trials go."""
        if self.search == "optuna":
            return None
        if self.search == "grid":
            points = grid(self.axes)
        else:
            points = random_points(self.axes, self.trials, self.recipe.runtime.seed)
        return [complete_settings(self.recipe, point) for point in points]


def checked_points(request: TuneRequest) -> list[TrialSettings] | None:
    """Settings of every trial, after everything about the request that can be wrong was looked at.

    Raises:
        UsageError: no validation part, or one too small for the budget; a setting that is not valid; or a
            folder that holds a teacher of the search.
    """
    refuse_own_inputs(request.folder, (request.old, *request.refs))
    if request.recipe.method.max_nfr is not None:
        raise UsageError(
            "method.max_nfr: moves k in every trial, so that nothing is left to search; take it out of the "
            "recipe, and give tune --max-nfr"
        )
    if request.budget.max_nfr is not None:
        _refuse_what_looks(request)
    if request.lockstep > 1 and (request.search == "optuna" or request.asha):
        which = "--search optuna" if request.search == "optuna" else "--asha"
        raise UsageError(
            f"--lockstep {request.lockstep}: trials in lock-step begin and end together, and {which} decides "
            "on each by how others went; leave one of the two out"
        )
    split = request.split
    rows = split.indices("val")
    samples_old = int((split.labels[rows] < split.classes.num_old).sum())
    if not samples_old:
        raise UsageError(
            f"{split.run_root}: its split holds out no validation sample of an old class, and tune never "
            "looks at the test set; run mptctl split again with --val-fraction 0.1 --overwrite"
        )
    points = request.points()
    if points is not None and request.budget.max_nfr is not None:
        series = len({series_key(point) for point in points})
        epochs = request.recipe.optim.epochs if request.recipe.optim.max_steps is None else 1
        replace(request.budget, epochs=epochs).most_flips(samples_old, series=series)
    ends: list[TrialSettings] = [
        {axis.name: axis.range[i] for axis in request.axes if axis.range} for i in (0, 1)
    ]
    values: list[TrialSettings] = [{axis.name: value} for axis in request.axes for value in axis.values]
    for settings in points if points is not None else [*ends, *values]:
        recipe_of(request.recipe, complete_settings(request.recipe, settings))
    if request.gpus_per_trial > 1 and request.gpus_per_trial != int(request.gpus_per_trial):
        raise UsageError(f"--gpus-per-trial {request.gpus_per_trial:g}: above 1 it must be a whole number")
    return points


def _refuse_what_looks(request: TuneRequest) -> None:
    """Refuse searches that choose trials by what others flip: no bound holds on samples that were looked at.

    Raises:
        UsageError: names the flag.
    """
    if request.search == "optuna":
        raise UsageError(
            "--max-nfr and --search optuna: it chooses trials by the flips that a budget is held against, so "
            "that no bound would hold; use --search grid or random"
        )
    if request.asha:
        raise UsageError(
            "--max-nfr and --asha: it gives trials up by the flips that a budget is held against, so that no "
            "bound would hold; leave one of them out"
        )
