"""A dry run of a search: its trials, and the plan of the first one."""

from __future__ import annotations

from pydantic import Field

from mptctl.files import Model
from mptctl.models.lock import refuse_unusable
from mptctl.recipe.search import name_of
from mptctl.training.dry_run import DryRun
from mptctl.training.dry_run import dry_run as dry_run_of_run
from mptctl.tune.prepare import first_run, read_earlier
from mptctl.tune.request import TuneRequest, checked_points
from mptctl.tune.tune_report import SEARCH


class TuneDryRun(Model):
    """The object that ``tune --dry-run --json`` prints."""

    trials: int = Field(description="how many")
    names: list[str] | None = Field(description="of the trials; null where they are chosen as they go")
    cpus_per_trial: int = Field(description="CPU cores of a trial")
    gpus_per_trial: float = Field(description="GPUs of a trial; may be a fraction")
    first: DryRun = Field(description="the first trial, or one with the recipe's own settings")


def dry_run(request: TuneRequest, recipe_name: str) -> TuneDryRun:
    """Plan a search of a recipe by that name, and its first trial.

    All that the search needs is checked, but for its pictures; nothing is written.

    Raises:
        MptctlError: the search, or its first trial, could not start.
    """
    points = checked_points(request)
    refuse_unusable(request.folder, SEARCH, request.existing)
    if request.resume:
        read_earlier(request.folder)
    first = dry_run_of_run(first_run(request, points), recipe_name)
    return TuneDryRun(
        trials=request.trials if points is None else len(points),
        names=None if points is None else [name_of(point) for point in points],
        cpus_per_trial=request.cpus_per_trial,
        gpus_per_trial=request.gpus_per_trial,
        first=first,
    )
