"""A budget of flips: from flags, against what chance alone flips, and kept once a run is trained."""

from __future__ import annotations

from mptctl.cli.messages import warn
from mptctl.errors import UsageError
from mptctl.evaluation.bias.choice import Budget
from mptctl.evaluation.limits import Limits
from mptctl.methods.rows import nfr_budget
from mptctl.models.run_folder import RunDir
from mptctl.names import Session
from mptctl.release.adjust_report import SUFFIX, AdjustRequest
from mptctl.release.chance_flips import below_chance_before_training
from mptctl.report.media.progress_bars import showing_progress
from mptctl.training.request import RunRequest


def budget_of_flags(
    max_nfr: float | None, max_er_increase: float | None, confidence: float | None = None
) -> Budget | None:
    """The budget that flags name, in percent and points; None without one.

    Raises:
        UsageError: both are given, or one that no rate can reach.
    """
    if max_nfr is not None and max_er_increase is not None:
        raise UsageError(
            "--max-nfr and --max-er-increase: one is the limit and the other what it costs; give one"
        )
    level = Budget.confidence if confidence is None else confidence
    limits = Limits(
        max_nfr=None if max_nfr is None else max_nfr / 100,
        max_er_increase=None if max_er_increase is None else max_er_increase / 100,
        confidence=level,
    )
    return Budget(limits.max_nfr, limits.max_er_increase, level) if limits.given() else None


def refuse_without_budget(
    max_nfr: float | None, confidence: float | None = None, noise_floor: str | None = None
) -> None:
    """Refuse a confidence with which nothing is to be kept, and a noise floor that nothing is held against.

    Raises:
        UsageError: so it is.
    """
    if confidence is not None and max_nfr is None:
        raise UsageError(f"--confidence {confidence:g}: says how sure a budget must be; give --max-nfr too")
    if noise_floor is not None and max_nfr is None:
        raise UsageError(f"--noise-floor {noise_floor}: is held against a budget; give --max-nfr too")


def adjusted_afterwards(request: RunRequest, noise_floor: str | None = None) -> AdjustRequest | None:
    """The adjustment of a run once it is trained; None for one without a budget of flips.

    Args:
        request: the run.
        noise_floor: another training of the old model.

    Raises:
        UsageError: something is in the way of the adjusted run that is not to be thrown away, or a noise
            floor without a budget.
    """
    limit = nfr_budget(request.recipe.method)
    refuse_without_budget(limit, noise_floor=noise_floor)
    if limit is None:
        return None
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
    with showing_progress(session) as session:
        warn(below_chance_before_training(budget, old, noise_floor, session))
