"""The request for a search, and the checks of it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from mptctl.data.split import Split
from mptctl.errors import UsageError
from mptctl.evaluation.bias.choice import Budget
from mptctl.methods.rows import row_of
from mptctl.models.ownership import Existing, existing_by_flags, refuse_own_inputs
from mptctl.names import Role, Sampler
from mptctl.recipe import Recipe
from mptctl.recipe.search import Axis, TrialSettings, random_points, recipe_at
from mptctl.tune.space import METHOD, complete_settings, grid, series_key


@dataclass(frozen=True)
class TuneRequest:
    """A search to run, and how.

    Attributes:
        recipe: common to all trials.
        split: the data.
        folder: that the search is written to.
        old, refs: checkpoints of the teachers.
        axes: the settings that are searched.
        sampler: grid, random or optuna.
        trials: number of trials, for random and optuna.
        asha: stop poor trials early, by their validation NFR.
        budget: that the chosen trial has to keep: a limit on the increase of error above the reference's, or
            on NFR.
        ray_address: of a Ray cluster that shares this machine's files; None for this machine alone.
        cpus_per_trial, gpus_per_trial: of each process; a fraction of a GPU is shared.
        max_concurrent: most processes at once; None: as many as fit.
        resume, overwrite: go on with, or throw away, a search that is in the folder.
        data_root: folder of the pictures now; None: where they were when the split was made.
    """

    recipe: Recipe
    split: Split
    folder: Path
    old: Path
    refs: tuple[Path, ...]
    axes: tuple[Axis, ...]
    sampler: Sampler = "grid"
    trials: int = 8
    asha: bool = False
    budget: Budget = field(default_factory=lambda: Budget(max_er_increase=0.005))
    ray_address: str | None = None
    cpus_per_trial: int = 1
    gpus_per_trial: float = 0.0
    max_concurrent: int | None = None
    resume: bool = False
    overwrite: bool = False
    data_root: Path | None = None

    @property
    def existing(self) -> Existing:
        """The fate of a search that is in the folder already: to be resumed, replaced or refused."""
        return existing_by_flags(resume=self.resume, overwrite=self.overwrite)

    @property
    def refs_of_trials(self) -> tuple[Path, ...]:
        """The references that a trial learns from, or begins with; they bound its error in any case."""
        method = self.recipe.method
        learns = Role.REF in row_of(method.name).teachers or any(axis.name == METHOD for axis in self.axes)
        return self.refs if learns or method.init == "ref" else ()

    def points(self) -> list[TrialSettings] | None:
        """The settings of every trial; None with Optuna, which proposes them during the search."""
        if self.sampler == "optuna":
            return None
        if self.sampler == "grid":
            points = grid(self.axes)
        else:
            points = random_points(self.axes, self.trials, self.recipe.runtime.seed)
        return [complete_settings(self.recipe, point) for point in points]


def checked_points(request: TuneRequest) -> list[TrialSettings] | None:
    """Check a request, and return the settings of every trial, or None as `TuneRequest.points`.

    Raises:
        UsageError: there is no validation part, or it is too small for the budget; settings are not valid,
            contradict each other, or make a run that cannot be trained; or the folder holds a teacher of the
            search.
    """
    refuse_own_inputs(request.folder, (request.old, *request.refs))
    if request.recipe.method.max_nfr is not None:
        raise UsageError(
            "method.max_nfr: moves k in every trial, so that nothing is left to search; take it out of the "
            "recipe, and give tune --max-nfr"
        )
    if request.budget.max_nfr is not None:
        _refuse_selection_by_flips(request)
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
    # These import torch, which no other check of a search needs.
    from mptctl.machine.device import choose_device
    from mptctl.training.plan import RunSize, refuse_untrainable

    size = RunSize(
        num_classes=len(split.classes.names),
        num_old=split.classes.num_old,
        pictures=len(split.indices("train")),
        held_out=len(rows),
    )
    device = choose_device(request.recipe.runtime.device)
    for settings in _extreme_points(request.axes) if points is None else points:
        recipe = recipe_at(request.recipe, complete_settings(request.recipe, settings))
        refuse_untrainable(recipe, size, device)
    if request.gpus_per_trial > 1 and request.gpus_per_trial != int(request.gpus_per_trial):
        raise UsageError(f"--gpus-per-trial {request.gpus_per_trial:g}: above 1 it must be a whole number")
    return points


def _extreme_points(axes: tuple[Axis, ...]) -> list[TrialSettings]:
    """Points by which all others are checked: all low ends, all high ends, and each value by itself."""
    low: TrialSettings = {axis.name: axis.range[0] for axis in axes if axis.range}
    high: TrialSettings = {axis.name: axis.range[1] for axis in axes if axis.range}
    values: list[TrialSettings] = [{axis.name: value} for axis in axes for value in axis.values]
    return [low, high, *values]


def _refuse_selection_by_flips(request: TuneRequest) -> None:
    """Refuse Optuna and ASHA with a limit on NFR.

    Both select trials by their flips on the validation samples, so that a bound on these samples would not
    hold.

    Raises:
        UsageError: one of them is set; the message names its flag.
    """
    if request.sampler == "optuna":
        raise UsageError(
            "--max-nfr and --sampler optuna: it chooses trials by flips that a budget is held against, so "
            "that no bound would hold; use --sampler grid or random"
        )
    if request.asha:
        raise UsageError(
            "--max-nfr and --asha: it gives trials up by the flips that a budget is held against, so that no "
            "bound would hold; leave one of them out"
        )
