"""The checks of a search before its first trial."""

from __future__ import annotations

from dataclasses import replace

from mptctl.errors import UsageError
from mptctl.machine.device import choose_device
from mptctl.models.ownership import refuse_own_inputs
from mptctl.recipe.search import Axis, TrialSettings, recipe_at
from mptctl.training.plan import RunSize, refuse_untrainable
from mptctl.tune.request import TuneRequest
from mptctl.tune.space import complete_settings, series_key


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
