"""The request for a search."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from mptctl.data.split import Split
from mptctl.evaluation.bias.choice import Budget
from mptctl.methods.rows import row_of
from mptctl.models.ownership import Existing, existing_by_flags
from mptctl.names import Role, Sampler
from mptctl.recipe import Recipe
from mptctl.recipe.search import Axis, TrialSettings, random_points
from mptctl.tune.space import METHOD, complete_settings, grid


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
