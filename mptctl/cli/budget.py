"""A budget of flips: from flags, in place of k in a training, against what chance alone flips, and kept afterwards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import typer

from mptctl.errors import UsageError, visible
from mptctl.names import Session

if TYPE_CHECKING:
    from mptctl.evaluation.bias.choice import Budget
    from mptctl.recipe import MethodRecipe
    from mptctl.release.adjusting import AdjustRequest
    from mptctl.training.request import RunRequest


def budget_keys(
    max_nfr: float | None, confidence: float | None, k: float | None, before: MethodRecipe
) -> dict[str, Any]:
    """Recipe keys of a budget; flags that were not given leave those of the recipe as it is before.

    Raises:
        UsageError: both a budget and k are given, or a confidence without a budget.
    """
    if max_nfr is not None and k is not None:
        raise UsageError("--max-nfr and --k: the budget moves k; give one of them")
    refuse_confidence_without_budget(confidence, before.max_nfr if max_nfr is None else max_nfr)
    flags = {"method.max_nfr": max_nfr, "method.confidence": confidence}
    return {key: value for key, value in flags.items() if value is not None}


def budget_of_flags(
    max_nfr: float | None, max_er_increase: float | None, confidence: float = 0.95
) -> Budget | None:
    """The budget that flags name, in percent and points; None without one.

    Raises:
        UsageError: both are given, or one that no rate can reach.
    """
    from mptctl.evaluation.bias.choice import Budget
    from mptctl.evaluation.limits import Limits

    if max_nfr is not None and max_er_increase is not None:
        raise UsageError(
            "--max-nfr and --max-er-increase: one is the limit and the other what it costs; give one"
        )
    limits = Limits(
        max_nfr=None if max_nfr is None else max_nfr / 100,
        max_er_increase=None if max_er_increase is None else max_er_increase / 100,
        confidence=confidence,
    )
    if not limits.given():
        return None
    return Budget(limits.max_nfr, limits.max_er_increase, confidence)


def refuse_confidence_without_budget(confidence: float | None, max_nfr: float | None) -> None:
    """Refuse a confidence with which nothing is to be kept.

    Raises:
        UsageError: so it is.
    """
    if confidence is not None and max_nfr is None:
        raise UsageError(f"--confidence {confidence:g}: says how sure a budget must be; give --max-nfr too")


def refuse_floor_without_budget(noise_floor: str | None, max_nfr: float | None) -> None:
    """Refuse a noise floor that nothing is held against.

    Raises:
        UsageError: so it is.
    """
    if noise_floor is not None and max_nfr is None:
        raise UsageError(f"--noise-floor {noise_floor}: is held against a budget; give --max-nfr too")


def adjusted_afterwards(request: RunRequest, noise_floor: str | None = None) -> AdjustRequest | None:
    """How a run is adjusted once it is trained; None for one without a budget of flips.

    Args:
        request: the run.
        noise_floor: another training of the old model.

    Raises:
        UsageError: something is in the way of the adjusted run that is not to be thrown away, or a noise floor without
            a budget.
    """
    from mptctl.methods.rows import budget_of

    limit = budget_of(request.recipe.method)
    refuse_floor_without_budget(noise_floor, limit)
    if limit is None:
        return None
    from mptctl.evaluation.bias.choice import Budget
    from mptctl.models.run_folder import RunDir
    from mptctl.release.adjusting import SUFFIX, AdjustRequest

    replaces = request.overwrite or request.resume
    folder = request.folder.with_name(request.folder.name + SUFFIX)
    RunDir(folder).refuse_unusable("replace" if replaces else "refuse for good")
    return AdjustRequest(
        new=str(request.folder),
        old=None if request.old is None else str(request.old),
        budget=Budget(max_nfr=limit, confidence=request.recipe.method.confidence),
        overwrite=replaces,
        noise_floor=noise_floor,
    )


def warn_of_chance(budget: Budget | None, old: str | None, noise_floor: str | None, session: Session) -> None:
    """Say before a training that its budget is below what another training of the old model flips.

    Args:
        budget, old, noise_floor: nothing is said where one of them is missing.
        session: as for the training.

    Raises:
        MptctlError: that model is not there, or is none that could be held against the old one.
    """
    if noise_floor is None or old is None or budget is None:
        return
    from mptctl.release.chance_flips import below_chance_before_training
    from mptctl.report.media.progress_bars import showing_progress

    with showing_progress(session) as session:
        warnings = below_chance_before_training(budget, old, noise_floor, session)
    for warning in warnings:
        typer.echo(f"warning: {visible(warning)}", err=True)
